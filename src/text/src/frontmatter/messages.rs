//! Messages about invalid YAML, in words for the author of a page.

use granit_parser::{ErrorKind, Marker, ScanError};

/// Characters of a key that a message shows.
const MAX_SHOWN: usize = 40;

/// An error and its position in the block: line from 1, column from 0.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) message: String,
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Problem {
    pub(super) fn at(marker: Marker, message: impl Into<String>) -> Self {
        Self { message: message.into(), line: marker.line(), column: marker.col() }
    }
}

/// The start of a text, as messages show it.
pub(super) fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The problem behind an error of the YAML parser, at the line that its author has to change.
pub(super) fn of_parser(error: &ScanError, yaml: &str) -> Problem {
    let mut problem = Problem::at(*error.marker(), message(error.kind()));
    if let Some(character) = yaml.chars().find(|character| is_forbidden(*character)) {
        problem.message = format!("the control character U+{:04X} is not possible in YAML", u32::from(character));
        problem.move_to(yaml.lines().enumerate(), |found| found == character);
    } else if matches!(error.kind(), ErrorKind::InvalidQuotedScalarIndent) {
        // found in the line after the mark
        let above: Vec<_> = yaml.lines().enumerate().take(problem.line.saturating_sub(1)).collect();
        problem.move_to(above.into_iter().rev(), |found| matches!(found, '"' | '\''));
    } else if problem.message == TAB {
        // found in the line before the tab
        problem.move_to(yaml.lines().enumerate().skip(problem.line.saturating_sub(1)), |found| found == '\t');
    }
    // an error at the end of the block is one of its last line
    let last_line = yaml.trim_end().lines().count().max(1);
    if problem.line > last_line {
        (problem.line, problem.column) = (last_line, 0);
    }
    problem
}

const TAB: &str = "a tab character where spaces are needed; indent with spaces";

impl Problem {
    /// Moves the position to the first of these lines with such a character.
    fn move_to<'y>(&mut self, lines: impl IntoIterator<Item = (usize, &'y str)>, is_cause: impl Fn(char) -> bool) {
        let position = |(index, line): (usize, &str)| Some((index + 1, line.chars().position(&is_cause)?));
        if let Some(position) = lines.into_iter().find_map(position) {
            (self.line, self.column) = position;
        }
    }
}

/// A control character that YAML forbids.
fn is_forbidden(character: char) -> bool {
    character.is_control() && !matches!(character, '\t' | '\n' | '\r' | '\u{85}')
}

fn message(kind: &ErrorKind) -> String {
    let text = match kind {
        ErrorKind::UnclosedQuotedScalar
        | ErrorKind::DocumentIndicatorInQuotedScalar
        | ErrorKind::InvalidQuotedScalarIndent => {
            "a quotation mark is never closed, or the text in it goes on in a line without indentation"
        }
        ErrorKind::InvalidTrailingSingleQuotedScalar => {
            "text after a closing `'`; write `''` for an apostrophe in quotes, or use `\"`"
        }
        ErrorKind::InvalidTrailingDoubleQuotedScalar => "text after a closing `\"`; write `\\\"` for one in quotes",
        ErrorKind::UnknownQuotedScalarEscape
        | ErrorKind::InvalidQuotedScalarHexEscape
        | ErrorKind::InvalidLowSurrogateHexEscape
        | ErrorKind::InvalidLowSurrogate
        | ErrorKind::MissingLowSurrogate
        | ErrorKind::UnpairedLowSurrogate
        | ErrorKind::InvalidUnicodeEscape => {
            "an unknown escape in double quotes; write `\\\\` for a backslash, or use single quotes"
        }
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabAtBlockScalarStart
        | ErrorKind::TabInIndentation
        | ErrorKind::TabInPlainScalar => TAB,
        ErrorKind::InvalidIndentation
        | ErrorKind::InvalidFlowScalarIndent
        | ErrorKind::InvalidBlockScalarIndent
        | ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::ExpectedBlockSequenceEntry => {
            "the indentation does not fit the lines above, or the line is no `key: value`"
        }
        ErrorKind::MappingValueNotAllowed
        | ErrorKind::InvalidColonPlacement
        | ErrorKind::MappingKeyNotAllowed
        | ErrorKind::FlowMappingValueAdjacentCollection
        | ErrorKind::InvalidMappingValueWhitespace => {
            "`: ` where no key is possible; put quotes around a value that contains `: `"
        }
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => {
            "a line that is no `key: value`; add a `:` and a space after the key"
        }
        ErrorKind::UnclosedFlowCollection { open } => return format!("`{open}` is never closed"),
        ErrorKind::UnexpectedEofFlowSequence | ErrorKind::ExpectedFlowSequenceSeparator => {
            "`[` is not closed by `]`, or a `,` is missing in between"
        }
        ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofImplicitFlowMapping
        | ErrorKind::ExpectedFlowMappingSeparator => "`{` is not closed by `}`, or a `,` is missing in between",
        ErrorKind::MismatchedFlowCollectionEnd { open, close } => return format!("`{open}` is closed by `{close}`"),
        ErrorKind::MisplacedFlowCollectionEnd => {
            "a closing bracket without an opening one; put quotes around the value"
        }
        ErrorKind::BlockEntryInFlowCollection
        | ErrorKind::BlockSequenceEntryNotAllowed
        | ErrorKind::InvalidBlockEntryWhitespace
        | ErrorKind::PlainScalarStartsWithDashFlowIndicator => {
            "`- ` where no list item is possible; begin the list on its own line, or put quotes around the value"
        }
        ErrorKind::UnknownAnchor => "an alias without anchor; put quotes around a value that begins with `*`",
        ErrorKind::MissingAnchorOrAliasName => "put quotes around a value that begins with `*` or `&`",
        ErrorKind::UnexpectedCharacter { character } => {
            return format!("put quotes around a value that begins with `{character}`");
        }
        ErrorKind::RecursionLimitExceeded => "lists and mappings are nested too deep",
        _ => message_of_rare(kind),
    };
    text.to_owned()
}

/// Comments, tags, directives and block texts.
fn message_of_rare(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::CommentNotSeparated | ErrorKind::CommentInterceptedScalar => {
            "a ` #` begins a comment here; put quotes around a value that contains it"
        }
        ErrorKind::ExpectedTagBang
        | ErrorKind::InvalidGlobalTagCharacter
        | ErrorKind::UndeclaredTagHandle
        | ErrorKind::InvalidTagTerminator
        | ErrorKind::MissingTagUri
        | ErrorKind::UnclosedVerbatimTag
        | ErrorKind::InvalidTagEscape
        | ErrorKind::InvalidTagUtf8LeadingByte
        | ErrorKind::InvalidTagUtf8TrailingByte
        | ErrorKind::InvalidTagUtf8 => "an invalid tag; put quotes around a value that begins with `!`",
        ErrorKind::DuplicateVersionDirective
        | ErrorKind::UnsupportedYamlMajorVersion
        | ErrorKind::DuplicateTagDirective
        | ErrorKind::ExpectedTagDirectiveBang
        | ErrorKind::InvalidDirectiveTerminator
        | ErrorKind::MissingDirectiveName
        | ErrorKind::InvalidDirectiveName
        | ErrorKind::MissingDocumentEndBeforeDirective => "put quotes around a line that begins with `%`",
        ErrorKind::ZeroBlockScalarIndent | ErrorKind::InvalidBlockScalarHeader => {
            "text after `|` or `>`; begin the text on the next line, or put quotes around the value"
        }
        ErrorKind::InvalidDocumentEnd => "text after a line `...`, which ends the frontmatter",
        _ => "this is not valid YAML; check quotation marks, brackets and indentation",
    }
}
