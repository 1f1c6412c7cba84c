CREATE TABLE sets (
    seq INTEGER PRIMARY KEY,
    time INTEGER NOT NULL,          -- nanoseconds since 1970
    actor TEXT NOT NULL,
    door TEXT NOT NULL,
    message TEXT NOT NULL,
    provenance TEXT,
    announcement TEXT NOT NULL,
    commit_id BLOB,
    role INTEGER NOT NULL,          -- record kind: 0 change, 1 external commit, 2 uncommitted, 3 commit of uncommitted
    against INTEGER NOT NULL DEFAULT 0, -- diff base: 0 parent, 1 first parent, 2 previous head, 3 after switch, 4 dropped
    request BLOB                    -- request that its client may send again: hashes of its id and of its content
);
CREATE INDEX sets_by_request ON sets (request) WHERE request IS NOT NULL;
CREATE INDEX sets_by_commit ON sets (commit_id);
CREATE INDEX jumps ON sets (seq) WHERE against = 2;
CREATE INDEX moments ON sets (time) WHERE commit_id IS NULL;
CREATE TABLE changes (
    seq INTEGER NOT NULL REFERENCES sets (seq),
    ordinal INTEGER NOT NULL,
    path TEXT NOT NULL,
    old BLOB,
    new BLOB,
    kind INTEGER NOT NULL,          -- the mode git stores
    modified INTEGER,               -- nanoseconds since 1970
    PRIMARY KEY (seq, ordinal)
) WITHOUT ROWID;
CREATE INDEX changes_by_path ON changes (path, seq, old, new);  -- covers queries of versions
CREATE TABLE moves (
    seq INTEGER NOT NULL REFERENCES sets (seq),
    ordinal INTEGER NOT NULL,
    old_path TEXT NOT NULL,
    new_path TEXT NOT NULL,
    PRIMARY KEY (seq, ordinal)
) WITHOUT ROWID;
CREATE TABLE contents (
    seq INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    bytes BLOB,                     -- NULL: in the spool file of this name
    mode INTEGER,                   -- mode and owner of the file; NULL: of the replaced file, or the default
    uid INTEGER,
    gid INTEGER,
    over_size INTEGER,              -- replaced file without versions: size and time
    over_modified INTEGER,
    PRIMARY KEY (seq, ordinal)
);
CREATE TABLE settled (
    seq INTEGER NOT NULL,
    head BLOB,
    strategy TEXT NOT NULL DEFAULT 'git' -- version strategy
);
INSERT INTO settled (seq, head) VALUES (0, NULL);
CREATE TABLE journal (
    file INTEGER PRIMARY KEY,       -- number of the journal file
    key BLOB NOT NULL               -- hash key of its batches; batches with another key are ignored
);
INSERT INTO journal (file, key) VALUES (0, randomblob(16)), (1, randomblob(16));
