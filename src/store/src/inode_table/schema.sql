-- Inode numbers for NFS handles, and stable writes of files that are not in the tree yet.
CREATE TABLE identity (
    space INTEGER NOT NULL
) STRICT;

-- A name in a directory. A directory's new name is one row.
CREATE TABLE files (
    number INTEGER PRIMARY KEY,
    parent INTEGER NOT NULL,
    name TEXT NOT NULL,
    -- Of an exclusive creation (RFC 1813 3.3.8).
    verifier BLOB,
    UNIQUE (parent, name)
) STRICT;

-- Pending stable writes, in order. Without `data`: set the length to `place`; else write `data` at `place`.
CREATE TABLE promises (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    number INTEGER NOT NULL,
    base TEXT,
    place INTEGER NOT NULL,
    data BLOB,
    author TEXT,
    -- Of a file that is not in the tree yet.
    mode INTEGER,
    uid INTEGER,
    gid INTEGER
) STRICT;
CREATE INDEX promises_of ON promises (number);
