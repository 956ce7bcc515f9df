"""What GitHub Actions needs of perfgate: one gate as a job, and what its workflows say and commit
afterwards."""
