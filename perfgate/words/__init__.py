"""What perfgate says: one table from codes to text, numbers and units as text, foreign text made
safe.

Nothing in here knows a record, and nothing outside of here words a message. Standard library only,
so that the worker and the light half of the plugin can speak too.

```
say.py       a code and its fields become text      table.py     all codes; a file a room
numbers.py   numbers, units, lists and plurals      escape.py    foreign text, made safe
```
"""
