"""Functions that released revisions import. Frozen: a revision has to give the same SQL for ever.

The golden file `migrations.sql` pins the SQL. Another form of a trigger or index gets a module of its own.
"""
