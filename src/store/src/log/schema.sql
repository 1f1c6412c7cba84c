CREATE TABLE sets (
    seq INTEGER PRIMARY KEY,
    time INTEGER NOT NULL,          -- nanoseconds since 1970
    actor TEXT NOT NULL,
    door TEXT NOT NULL,
    message TEXT NOT NULL,
    provenance TEXT,
    announcement TEXT NOT NULL,
    commit_id BLOB,
    role INTEGER NOT NULL,          -- 0 a set, 1 a commit of others, 2 a set without a commit, 3 the commit of such sets
    against INTEGER NOT NULL DEFAULT 0 -- what its changes are the difference from: 0 parent, 1 first of several, 2 another branch, 3 parent
                                       -- (told of by a 2), 4 none: of a branch that was left
);
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
CREATE INDEX changes_by_path ON changes (path, seq, old, new);  -- all that the versions of a path are told from, but their sets
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
    mode INTEGER,                   -- permission bits and owner the file should get; NULL: what is there, or what a new file gets
    uid INTEGER,
    gid INTEGER,
    over_size INTEGER,              -- the file too large for any version that it is put in the place of, and its time as above
    over_modified INTEGER,
    PRIMARY KEY (seq, ordinal)
);
CREATE TABLE settled (
    seq INTEGER NOT NULL,
    head BLOB,
    strategy TEXT NOT NULL DEFAULT 'git' -- what keeps versions beside the log
);
INSERT INTO settled (seq, head) VALUES (0, NULL);
CREATE TABLE journal (
    file INTEGER PRIMARY KEY,       -- of the two in front of these rows
    key BLOB NOT NULL               -- what its batches are hashed with; batches under another are nothing
);
INSERT INTO journal (file, key) VALUES (0, randomblob(16)), (1, randomblob(16));
