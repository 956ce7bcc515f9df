"""Says where a verdict's metrics moved: ranges in, sentences out; decides nothing and knows no
other room."""
