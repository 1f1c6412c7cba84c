//! The verbs: positions, options and examples.

use super::Action::{EachPath, Once, Steps};
use super::PositionalKind::{File, Path, Paths, Text, Value, Words};
use super::backup_restore::FROM_BACKUP;
use super::{FixedValue, Positional, PositionalKind, Verb, VerbFlag, VerbOption, steps, views};

const fn required(
    parameter: &'static str,
    value_name: &'static str,
    help: &'static str,
    kind: PositionalKind,
) -> Positional {
    Positional { parameter, value_name, help, kind, is_required: true }
}

const fn optional(
    parameter: &'static str,
    value_name: &'static str,
    help: &'static str,
    kind: PositionalKind,
) -> Positional {
    Positional { is_required: false, ..required(parameter, value_name, help, kind) }
}

const fn option(parameter: &'static str) -> VerbOption {
    long_option(parameter, parameter)
}

const fn long_option(parameter: &'static str, long: &'static str) -> VerbOption {
    VerbOption { parameter, long, short: None, alias: None, value_name: "", help: "" }
}

const fn limit(help: &'static str) -> VerbOption {
    VerbOption { short: Some('n'), help, ..option("limit") }
}

const fn skip(help: &'static str) -> VerbOption {
    VerbOption { help, ..option("offset") }
}

const FOLDER: VerbOption =
    VerbOption { alias: Some("in"), value_name: "DIR", ..long_option("path_prefix", "path-prefix") };
const AS_OF: VerbOption = VerbOption {
    value_name: "TIME",
    help: "The pages as they were then: a time, a date, a commit hash, a branch or a tag; only words find pages",
    ..long_option("as_of", "as-of")
};
const DRY_RUN: VerbOption =
    VerbOption { help: "Show what would change, and write nothing", ..long_option("dry_run", "dry-run") };
const LINES: VerbOption = limit("Maximum number of lines [default: all]");
const SKIPPED_LINES: VerbOption = skip("Skip this many lines");

const VERB: Verb = Verb {
    name: "",
    operation: "",
    about: "",
    details: "",
    examples: "",
    positionals: &[],
    options: &[],
    flags: &[],
    fixed: &[],
    action: Once(views::search::results),
    alternative: None,
};

const PAGE: &str = "Path of the page; inside the root or a mount, relative to the current directory";

/// All verbs, in the order of the help.
pub const VERBS: &[Verb] = &[
    SEARCH, RECALL, READ, WRITE, APPEND, LS, TREE, RENAME, RM, LOG, BLAME, DIFF, UNDO, RESTORE, TRASH, LINKS, BACKLINKS,
];

const SEARCH: Verb = Verb {
    name: "search",
    operation: "search",
    about: "Search pages by words, best match first",
    details: "Pages with all words come first; if there are few, pages with some of them follow, and in a question words such \
              as `how` and `the` may be missing. Also understood: `OR`, `NOT`, \"a phrase\", `pre*`, `title:word`, `tags:x`; see \
              `svcfs call search --help`. With `--semantic` pages are found by meaning, too.",
    examples: "\
Examples:
  svcfs search refresh token
  svcfs search '\"refresh token\" OR oauth' -n 5
  svcfs search tide --in notes/sea                 only pages in this folder
  svcfs search --semantic how do I get a page back  by meaning and words
  svcfs search tyde --suggest-threshold 0.7        also similar words, if nothing is found
  svcfs search tide --as-of 2026-05-01             the pages as they were then
  svcfs search tide --json | jq -r '.[].path'",
    positionals: &[required("q", "WORDS", "Words to search", Words)],
    options: &[
        limit("Maximum number of pages [default: 50]"),
        skip("Skip this many of the best pages"),
        FOLDER,
        VerbOption {
            value_name: "TIME",
            help: "Only pages changed after this time, such as 2026-05-01T00:00:00Z",
            ..long_option("modified_after", "modified-after")
        },
        VerbOption {
            value_name: "none",
            help: "`none`: rank verified pages as all others [default: verified pages first]",
            ..option("boost")
        },
        VerbOption {
            help: "If nothing is found, search for similar words; 0 to 1 is how similar they must be, such as 0.7",
            ..long_option("suggest_threshold", "suggest-threshold")
        },
        AS_OF,
    ],
    flags: &[VerbFlag {
        name: "semantic",
        short: None,
        help: "Search by meaning, too; needs the setting `search.vector.enabled`",
    }],
    action: Steps(steps::search),
    ..VERB
};

const RECALL: Verb = Verb {
    name: "recall",
    operation: "recall",
    about: "Print the sections that answer a question, with citations, within a budget of tokens",
    details: "Each section is cited as `path#heading@commit:L10-L24`. Pages are found by words, by meaning (with the \
              setting `search.vector.enabled`) and by links.",
    examples: "\
Examples:
  svcfs recall how do we rotate the signing keys
  svcfs recall 'tide window' --budget 1000 --in notes/sea
  svcfs recall 'tide window' --as-of 2026-05-01    from the pages as they were then
  svcfs recall 'tide window' --json | jq -r '.excerpts[].path'",
    positionals: &[required("query", "QUESTION", "Question or topic", Words)],
    options: &[
        VerbOption {
            alias: Some("budget-tokens"),
            help: "Maximum number of tokens, 200 to 20,000 [default: 4000]",
            ..long_option("budget_tokens", "budget")
        },
        FOLDER,
        VerbOption { value_name: "NAME", help: "Only pages with this `scope` in the frontmatter", ..option("scope") },
        VerbOption {
            value_name: "LEGS",
            help: "What finds pages, separated by commas: fts (words), vector (meaning), graph (links) [default: all]",
            ..option("legs")
        },
        VerbOption {
            help: "Only pages of at least this trust, 0 to 1; a page that says nothing of itself has 0.5",
            ..long_option("min_trust", "min-trust")
        },
        AS_OF,
    ],
    action: Once(views::search::recall),
    ..VERB
};

const READ: Verb = Verb {
    name: "read",
    operation: "read",
    about: "Print pages or other files",
    details: "The bytes are printed unchanged, one file after the other.",
    examples: "\
Examples:
  svcfs read index.md
  svcfs read notes/a.md notes/b.md
  svcfs read picture.png > picture.png
  svcfs read index.md --offset 10 --limit 20       20 lines after the tenth
  svcfs read index.md --json | jq -r .etag",
    positionals: &[required("path", "PATH", PAGE, Paths)],
    options: &[
        SKIPPED_LINES,
        LINES,
        VerbOption { help: "Print only the frontmatter, as JSON", ..long_option("metadata_only", "metadata-only") },
        VerbOption {
            help: "Print wiki links as markdown links with full addresses; needs the setting `server.public_url`",
            ..long_option("resolve_links", "resolve-links")
        },
    ],
    action: EachPath(views::changes::content),
    ..VERB
};

const WRITE: Verb = Verb {
    name: "write",
    operation: "write",
    about: "Write a page or another file, creating it if absent",
    details: "The content is that of FILE or of standard input. The write is one commit.",
    examples: "\
Examples:
  svcfs write notes/tides.md draft.md
  date | svcfs write notes/now.md
  svcfs read a.md | sed s/moon/sun/ | svcfs write a.md
  svcfs write a.md draft.md --if-match \"$(svcfs read a.md --json | jq -r .etag)\"",
    positionals: &[
        required("path", "PATH", "Path to write; missing directories are created", Path),
        optional("content", "FILE", "File on this machine with the content [default: standard input]", File),
    ],
    options: &[
        VerbOption { help: "Store the content unchanged, even if the settings enable formatting", ..option("exact") },
        VerbOption {
            help: "Create a symbolic link at PATH; the content is its target, relative to the directory of PATH",
            ..option("symlink")
        },
        DRY_RUN,
    ],
    action: Once(views::changes::written),
    ..VERB
};

const APPEND: Verb = Verb {
    name: "append",
    operation: "append",
    about: "Append text to a page, creating it if absent",
    details: "A text on the command line gets a final line break. `--separator` is inserted before it; by default the \
              text is a paragraph of its own. With `--separator ''` it is the next line, such as an item of a list.",
    examples: "\
Examples:
  svcfs append log.md 'The tide was high.'
  svcfs append tasks.md '- [ ] call Ann' --separator ''
  make 2>&1 | svcfs append build.md --actor agent:ci",
    positionals: &[
        required("path", "PATH", PAGE, Path),
        optional("content", "TEXT", "Text to append [default: standard input]", Text),
    ],
    options: &[VerbOption {
        help: "Text between the present content and TEXT; not used in a new or empty page [default: a line break]",
        ..option("separator")
    }],
    action: Once(views::changes::appended),
    ..VERB
};

const LS: Verb = Verb {
    name: "ls",
    operation: "tree",
    about: "List the files and directories of a directory",
    examples: "\
Examples:
  svcfs ls
  svcfs ls -l notes
  svcfs ls --json | jq -r '.[].path'",
    positionals: &[optional("path", "PATH", "Directory or file [default: the current or the top directory]", Path)],
    flags: &[
        VerbFlag { name: "long", short: Some('l'), help: "Also list size and modification time" },
        VerbFlag { name: "all", short: Some('a'), help: "Also list names that begin with a dot" },
    ],
    fixed: &[("depth", FixedValue::Number(1)), ("details", FixedValue::True)],
    action: Once(views::tree::list),
    ..VERB
};

const TREE: Verb = Verb {
    name: "tree",
    operation: "tree",
    about: "Show directories and files as a tree",
    examples: "\
Examples:
  svcfs tree
  svcfs tree notes --depth 2
  svcfs tree --json | jq -r '.. | .path? // empty'",
    positionals: &[optional("path", "PATH", "Directory [default: the current or the top directory]", Path)],
    options: &[VerbOption {
        short: Some('L'),
        help: "Show this many levels of directories, at most 20 [default: 20]",
        ..option("depth")
    }],
    action: Once(views::tree::tree),
    ..VERB
};

const RENAME: Verb = Verb {
    name: "rename",
    operation: "rename",
    about: "Rename or move a page or a directory and update links to it",
    details: "As with mv, a TO that is a directory receives FROM. The renamed page and the pages whose links change are \
              one commit.",
    examples: "\
Examples:
  svcfs rename tides.md notes/tides-and-moon.md
  svcfs rename tides.md notes/                     into a directory
  svcfs rename notes sea                           a directory with all its pages",
    positionals: &[
        required("from", "FROM", "Current path of a page or directory", Path),
        required("to", "TO", "New path; missing directories are created", Path),
    ],
    options: &[
        VerbOption {
            help: "`false` leaves the links of other pages as they are [default: true]",
            ..long_option("update_links", "update-links")
        },
        VerbOption {
            value_name: "ETAG",
            help: "Replace TO if it exists with this ETag, or with any: `*` [default: an existing TO is refused]",
            ..option("replacing")
        },
        DRY_RUN,
    ],
    action: Steps(steps::rename),
    ..VERB
};

const RM: Verb = Verb {
    name: "rm",
    operation: "delete",
    about: "Remove pages, other files and empty directories",
    details: "Each is a commit. Older versions stay in the history: `svcfs restore PATH` brings a page back.",
    examples: "\
Examples:
  svcfs rm notes/old.md
  svcfs rm -r drafts                               a directory with everything in it
  svcfs rm notes/old.md --dry-run                  show the links that would be broken
  svcfs restore notes/old.md                       bring one back",
    positionals: &[required("path", "PATH", "Path to remove", Paths)],
    options: &[DRY_RUN],
    flags: &[VerbFlag { name: "recursive", short: Some('r'), help: "Remove directories with everything in them" }],
    action: Steps(steps::remove),
    ..VERB
};

const LOG: Verb = Verb {
    name: "log",
    operation: "timeline",
    about: "List the versions of a page, or recent changes, newest first",
    details: "With a page: its versions (`svcfs call versions`). With a directory, or without a path: recent changes there \
              (`svcfs call timeline`).",
    examples: "\
Examples:
  svcfs log                                        recent changes
  svcfs log index.md                               versions of a page, also of a removed one
  svcfs log notes/ -n 20 --actor ann
  svcfs diff index.md 4f2a09c1                     what changed since a version",
    positionals: &[optional("path", "PATH", "Page or directory [default: the current or the top directory]", Path)],
    options: &[
        limit("Maximum number of entries [default: all versions of a page, 50 changes of a directory]"),
        skip("Skip this many of the newest entries"),
        VerbOption { value_name: "NAME", help: "Only changes by this author (exact name)", ..option("actor") },
        VerbOption { help: "`false` omits what happened under former names [default: true]", ..option("follow") },
    ],
    action: Steps(steps::log),
    ..VERB
};

const BLAME: Verb = Verb {
    name: "blame",
    operation: "blame",
    about: "Show who last changed each line of a page",
    examples: "\
Examples:
  svcfs blame index.md
  svcfs blame index.md --offset 100 --limit 20
  svcfs blame index.md --json | jq -r '.[].author' | sort | uniq -c",
    positionals: &[required("path", "PATH", PAGE, Path)],
    options: &[SKIPPED_LINES, LINES],
    action: Once(views::history::blame),
    ..VERB
};

const DIFF: Verb = Verb {
    name: "diff",
    operation: "diff",
    about: "Show what changed in a page",
    details: "Without versions: the newest change. With FROM: all changes since that version.",
    examples: "\
Examples:
  svcfs diff index.md                              the newest change
  svcfs diff index.md 4f2a09c1                     everything since a version of `svcfs log`
  svcfs diff index.md 4f2a09c1 9b1c0d22            between two versions",
    positionals: &[
        required("path", "PATH", PAGE, Path),
        optional("from", "FROM", "Older version, as `svcfs log PATH` shows it [default: the one before TO]", Value),
        optional("to", "TO", "Newer version [default: the newest]", Value),
    ],
    action: Steps(steps::diff),
    ..VERB
};

const UNDO: Verb = Verb {
    name: "undo",
    operation: "revert",
    about: "Undo changes of an actor, of a period or of some commits",
    details: "The reverse of these changes is merged into the pages as they are now, in one commit; later changes by \
              others stay, and what overlaps with them is listed. At a terminal it shows what will be undone and asks.",
    examples: "\
Examples:
  svcfs undo --actor agent:x --since 2h --dry-run  show what would be undone
  svcfs undo --actor agent:x --since 2026-11-29T08:00:00Z --path notes
  svcfs undo --commits 4f2a09c1,9b1c0d22 --yes     do not ask",
    options: &[
        VerbOption { value_name: "NAME", ..option("actor") },
        VerbOption { value_name: "TIME", ..option("since") },
        VerbOption { value_name: "HASHES", help: "Only these commits, separated by commas", ..option("commits") },
        VerbOption {
            alias: Some("in"),
            help: "Only pages at or below this path; may be given several times",
            ..long_option("paths", "path")
        },
        long_option("dry_run", "dry-run"),
    ],
    flags: &[VerbFlag { name: "yes", short: Some('y'), help: "Do not ask" }],
    action: Steps(steps::undo),
    ..VERB
};

const RESTORE: Verb = Verb {
    name: "restore",
    operation: "restore",
    about: "Bring a removed page back, or set a page to an earlier version; or restore a backup",
    examples: "\
Examples:
  svcfs trash                                      removed pages
  svcfs restore notes/old.md                       as it was before its removal
  svcfs restore index.md --version 4f2a09c1        a version of `svcfs log index.md`
  svcfs restore --from git@example.org:n.git --to notes  a complete knowledge base from a backup",
    positionals: &[optional("path", "PATH", PAGE, Path)],
    options: &[VerbOption {
        value_name: "HASH",
        help: "Version, as `svcfs log PATH` shows it [default for a removed page: the newest]",
        ..option("version")
    }],
    action: Once(views::undo::restored),
    alternative: Some(&FROM_BACKUP),
    ..VERB
};

const TRASH: Verb = Verb {
    name: "trash",
    operation: "trash",
    about: "List removed pages that can be brought back, newest removal first",
    examples: "\
Examples:
  svcfs trash
  svcfs trash --in notes -n 100
  svcfs trash --json | jq -r '.pages[].path'",
    options: &[limit("Maximum number of pages [default: 50]"), skip("Skip this many of the newest removals"), FOLDER],
    action: Once(views::undo::trash),
    ..VERB
};

const LINKS: Verb = Verb {
    name: "links",
    operation: "peek",
    about: "List the pages that a page links to, and its broken links",
    examples: "\
Examples:
  svcfs links index.md
  svcfs links index.md --json | jq -r '.links_broken[]'",
    positionals: &[required("path", "PATH", PAGE, Path)],
    action: Once(views::links::links),
    ..VERB
};

const BACKLINKS: Verb = Verb {
    name: "backlinks",
    operation: "backlinks",
    about: "List the pages that link to a page",
    examples: "\
Examples:
  svcfs backlinks index.md
  svcfs backlinks index.md --json | jq length",
    positionals: &[required("path", "PATH", PAGE, Path)],
    options: &[limit("Maximum number of pages [default: 1000]")],
    action: Steps(steps::backlinks),
    ..VERB
};
