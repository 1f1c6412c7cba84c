//! What the lexer knows of languages.

/// How a language writes texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strings {
    /// None that quotes would show.
    None,
    /// `"…"` and `'…'` on one line.
    Lines,
    /// The same over several lines.
    Long,
    /// The same, and `"""…"""`.
    Triple,
    /// `"…"` over several lines, and `'…'` for a single character.
    Character,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Language {
    pub(super) line_comments: &'static [&'static str],
    pub(super) block_comment: Option<(&'static str, &'static str)>,
    pub(super) strings: Strings,
    /// Separated by spaces.
    keywords: &'static str,
    ignores_case: bool,
}

impl Language {
    pub(super) fn is_keyword(&self, word: &str) -> bool {
        let is_same =
            |keyword: &str| if self.ignores_case { keyword.eq_ignore_ascii_case(word) } else { keyword == word };
        !word.is_empty() && self.keywords.split(' ').any(is_same)
    }
}

const C_BLOCK: Option<(&str, &str)> = Some(("/*", "*/"));

const fn c_like(strings: Strings, keywords: &'static str) -> Language {
    Language { line_comments: &["//"], block_comment: C_BLOCK, strings, keywords, ignores_case: false }
}

const fn script(strings: Strings, keywords: &'static str) -> Language {
    Language { line_comments: &["#"], block_comment: None, strings, keywords, ignores_case: false }
}

const RUST: &str = "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match \
    mod move mut pub ref return self Self static struct super trait true type union unsafe use where while";
const PYTHON: &str = "False None True and as assert async await break class continue def del elif else except finally for \
    from global if import in is lambda match nonlocal not or pass raise return try while with yield";
const JAVASCRIPT: &str = "abstract any as async await boolean break case catch class const continue debugger declare \
    default delete do else enum export extends false finally for from function get if implements import in instanceof \
    interface keyof let namespace new null number of private protected public readonly return satisfies set static string \
    super switch this throw true try type typeof undefined var void while yield";
const JAVA: &str = "abstract as boolean break by byte case catch char class companion const continue data default do double \
    else enum extends false final finally float for fun func guard if implements import in init instanceof int interface \
    internal is lateinit let long native new nil null object open override package private protected protocol public record \
    return sealed self short static struct super switch synchronized this throw throws transient true try typealias val var \
    void volatile when where while";
const C: &str = "alignas alignof auto bool break case catch char class const constexpr continue decltype default delete do \
    double else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept \
    nullptr operator private protected public register return short signed sizeof static struct switch template this throw \
    true try typedef typename union unsigned using virtual void volatile while";
const CSHARP: &str = "abstract as async await base bool break byte case catch char class const continue decimal default \
    delegate do double else enum event explicit extern false finally fixed float for foreach get if implicit in int \
    interface internal is lock long namespace new null object operator out override params private protected public \
    readonly record ref return sealed set short sizeof static string struct switch this throw true try typeof uint ulong \
    unsafe using var virtual void volatile while yield";
const GO: &str = "break case chan const continue default defer else fallthrough false for func go goto if import interface \
    iota map nil package range return select struct switch true type var";
const PHP: &str = "abstract and array as break case catch class clone const continue declare default do echo else elseif \
    empty extends false final finally fn for foreach function global if implements instanceof interface isset match \
    namespace new null or print private protected public readonly require return static switch this throw trait true try \
    unset use var while yield";
const SHELL: &str = "alias break case cd continue declare do done echo elif else esac eval exec exit export false fi for \
    function if in local read readonly return select set shift source then trap true unset until while";
const RUBY: &str = "alias and begin break case class def defined do else elsif end ensure false for if in module next nil not \
    or private public raise redo require rescue retry return self super then true undef unless until when while yield";
const SQL: &str = "add all alter and any as asc begin between by case cast check column commit constraint create cross \
    database default delete desc distinct drop else end except exists false foreign from full function group having if in \
    index inner insert intersect into is join key left like limit not null offset on or order outer primary references \
    returning right rollback select set table then transaction true union unique update using values view when where with";
const LUA: &str = "and break do else elseif end false for function goto if in local nil not or repeat return then true until \
    while";
const HASKELL: &str = "case class data deriving do else False if import in infix instance let module newtype of then True \
    type where";
const DATA: &str = "false no null off on true yes";
const DOCKERFILE: &str = "ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL RUN SHELL STOPSIGNAL USER VOLUME \
    WORKDIR";

/// The language of a name or a file extension, in lower case.
pub(super) fn find(name: &str) -> Option<Language> {
    let language = match name {
        "rust" | "rs" => c_like(Strings::Character, RUST),
        "javascript" | "js" | "jsx" | "mjs" | "typescript" | "ts" | "tsx" => c_like(Strings::Lines, JAVASCRIPT),
        "java" | "kotlin" | "kt" | "scala" | "swift" | "groovy" | "dart" => c_like(Strings::Triple, JAVA),
        "c" | "h" | "cpp" | "c++" | "cc" | "hpp" | "objc" | "zig" | "glsl" => c_like(Strings::Lines, C),
        "csharp" | "cs" | "c#" => c_like(Strings::Lines, CSHARP),
        "go" | "golang" => c_like(Strings::Lines, GO),
        "php" => Language { line_comments: &["//", "#"], ..c_like(Strings::Long, PHP) },
        "css" | "scss" | "less" => Language { line_comments: &[], ..c_like(Strings::Lines, "") },
        "json" | "jsonc" | "json5" => c_like(Strings::Lines, DATA),
        "python" | "py" | "starlark" => script(Strings::Triple, PYTHON),
        "bash" | "sh" | "shell" | "zsh" | "fish" | "console" => script(Strings::Long, SHELL),
        "ruby" | "rb" | "elixir" | "ex" | "perl" | "r" | "julia" => script(Strings::Long, RUBY),
        "toml" | "yaml" | "yml" | "ini" | "conf" | "nix" | "hcl" | "terraform" => script(Strings::Triple, DATA),
        "make" | "makefile" => script(Strings::None, "define else endef endif ifdef ifeq ifndef ifneq include"),
        "dockerfile" | "docker" => script(Strings::Lines, DOCKERFILE),
        "sql" | "postgresql" | "mysql" | "sqlite" => Language {
            line_comments: &["--"],
            block_comment: C_BLOCK,
            strings: Strings::Long,
            keywords: SQL,
            ignores_case: true,
        },
        "lua" => Language { line_comments: &["--"], ..script(Strings::Long, LUA) },
        "haskell" | "hs" | "elm" => Language {
            line_comments: &["--"],
            block_comment: Some(("{-", "-}")),
            ..script(Strings::Character, HASKELL)
        },
        "html" | "xml" | "svg" | "vue" | "svelte" => {
            Language { line_comments: &[], block_comment: Some(("<!--", "-->")), ..script(Strings::Long, "") }
        }
        _ => return None,
    };
    Some(language)
}
