//! The error type of svcfs, independent of protocols, with one message for the caller and one for
//! the log.

use std::error::Error;
use std::fmt;

use serde_json::{Map, Value};

use crate::{ETag, TreePath};

/// Severity at which a fault is logged, once, at the edge that answers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Normal operation, such as a lookup without result.
    Debug,
    /// The request of a caller was refused.
    Info,
    /// The server failed.
    Error,
}

/// How a fault is returned to an agent.
///
/// Wrong arguments are not JSON-RPC error −32602, because clients show protocol errors to their
/// user, and tool results to the model, which can correct its arguments (the MCP specification
/// recommends the same).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpError {
    /// A tool result with `isError`.
    Tool,
    /// JSON-RPC error −32603, internal error.
    Internal,
}

macro_rules! faults {
    ($( $(#[doc = $doc:literal])* $kind:ident $http:literal $errno:literal $nfs:literal $s3:literal $level:ident $mcp:ident )*) => {
        /// Kind of a fault, independent of protocols. Each protocol maps it with one table column.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kind { $( $(#[doc = $doc])* $kind, )* }

        impl Kind {
            /// All kinds, in table order.
            pub const ALL: &'static [Kind] = &[$(Kind::$kind),*];
            /// The kind's name as written in the table.
            pub const fn name(self) -> &'static str { match self { $(Kind::$kind => stringify!($kind)),* } }
            /// HTTP status code.
            pub const fn http(self) -> u16 { match self { $(Kind::$kind => $http),* } }
            /// Linux errno.
            pub const fn errno(self) -> i32 { match self { $(Kind::$kind => $errno),* } }
            /// NFSv3 status number (RFC 1813 2.6).
            pub const fn nfs(self) -> u32 { match self { $(Kind::$kind => $nfs),* } }
            /// S3 error code.
            pub const fn s3(self) -> &'static str { match self { $(Kind::$kind => $s3),* } }
            /// Severity at which the edge logs it.
            pub const fn level(self) -> LogLevel { match self { $(Kind::$kind => LogLevel::$level),* } }
            /// How an agent receives it.
            pub const fn mcp(self) -> McpError { match self { $(Kind::$kind => McpError::$mcp),* } }
        }
    };
}

faults! {
    /// The path does not exist.
    NotFound           404   2     2 "NoSuchKey"          Debug Tool
    /// The path exists already.
    Exists             409  17    17 "PreconditionFailed" Info  Tool
    /// Another writer was first: ETag, merge, claim or transition.
    Conflict           409  16    13 "PreconditionFailed" Info  Tool
    /// Another client has a lock or lease on it.
    Locked             423  16    13 "OperationAborted"   Info  Tool
    /// `If-None-Match: *` on a path that exists.
    PreconditionFailed 412  17    17 "PreconditionFailed" Info  Tool
    /// The request is malformed.
    Invalid            400  22    22 "InvalidArgument"    Info  Tool
    /// A gate (lint, schema) refused the content.
    Rejected           422  22    22 "InvalidRequest"     Info  Tool
    /// A rule of the space, such as a workflow, does not allow the change.
    NotAllowed         409  22    22 "InvalidRequest"     Info  Tool
    /// No or wrong credentials.
    Unauthenticated    401  13    13 "AccessDenied"       Info  Tool
    /// The caller may not do this.
    Forbidden          403  13    13 "AccessDenied"       Info  Tool
    /// The path cannot be written.
    ReadOnly           403  30    30 "AccessDenied"       Info  Tool
    /// A directory was needed.
    NotDirectory       409  20    20 "InvalidArgument"    Info  Tool
    /// A file was needed.
    IsDirectory        409  21    21 "InvalidArgument"    Info  Tool
    /// The directory still has entries.
    NotEmpty           409  39    66 "BucketNotEmpty"     Info  Tool
    /// A path component over 255 bytes, or a path over 4,096.
    NameTooLong        400  36    63 "KeyTooLongError"    Info  Tool
    /// The body or file is over its limit.
    TooLarge           413  27    27 "EntityTooLarge"     Info  Tool
    /// A file type that is not accepted here.
    UnsupportedType    415  22    22 "InvalidArgument"    Info  Tool
    /// Too many requests.
    RateLimited        429  11 10008 "SlowDown"           Info  Tool
    /// A handle whose file was removed.
    Stale              404 116    70 "NoSuchKey"          Debug Tool
    /// An optional component that is switched off.
    Disabled           501  95 10004 "NotImplemented"     Info  Tool
    /// The same where the contract has 503.
    NotEnabled         503  95 10004 "NotImplemented"     Info  Tool
    /// A component that cannot answer now.
    Unavailable        503  11 10008 "ServiceUnavailable" Error Tool
    /// Another server failed.
    Upstream           502   5     5 "InternalError"      Error Tool
    /// A document whose address the caller gave cannot be used; the caller sees the reason.
    FetchFailed        502   5     5 "InternalError"      Error Tool
    /// The disk is full.
    NoSpace            503  28    28 "ServiceUnavailable" Error Tool
    /// The disk returned an I/O error.
    DiskFailed         500   5     5 "InternalError"      Error Tool
    /// A failure of the server itself.
    Internal           500   5     5 "InternalError"      Error Internal
}

impl Kind {
    /// Whether the content itself was refused: the same content is refused again.
    pub const fn refuses_content(self) -> bool {
        matches!(self, Self::Rejected | Self::NotAllowed | Self::Invalid)
    }
}

/// How the message about a full disk starts. Clients of the API recognize it by that.
pub const DISK_FULL: &str = "disk full";

/// A refusal or failure: the message for the caller, the message for the log, and the cause.
pub struct Fault(Box<FaultDetails>);

struct FaultDetails {
    kind: Kind,
    message: String,
    inside: Option<String>,
    detail: Map<String, Value>,
    missing_path: Option<TreePath>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl Fault {
    /// A fault of `kind` whose `message` may be shown to the caller.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        let (message, detail) = (message.into(), Map::new());
        Self(Box::new(FaultDetails { kind, message, inside: None, detail, missing_path: None, source: None }))
    }
    /// Adds text for the log only.
    #[must_use]
    pub fn with_context(mut self, text: impl Into<String>) -> Self {
        self.0.inside = Some(text.into());
        self
    }
    /// Adds the cause, for the log.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }
    /// Adds a member to the JSON body beside `error`, such as `active_claim` or `issues`.
    #[must_use]
    pub fn with_detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.detail.insert(key.to_owned(), value.into());
        self
    }
    /// Says which path does not exist, so that similar ones can be suggested.
    #[must_use]
    pub fn with_missing_path(mut self, path: &TreePath) -> Self {
        self.0.missing_path = Some(path.clone());
        self
    }
    /// Adds advice to the message.
    #[must_use]
    pub fn with_advice(mut self, advice: &str) -> Self {
        self.0.message.push_str("; ");
        self.0.message.push_str(advice);
        self
    }
    /// The path that does not exist, if that is the reason.
    pub fn missing_path(&self) -> Option<&TreePath> {
        self.0.missing_path.as_ref()
    }
    /// The kind.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }
    /// The message for the caller.
    pub fn message(&self) -> &str {
        &self.0.message
    }
    /// Members to add to an error body.
    pub fn detail(&self) -> &Map<String, Value> {
        &self.0.detail
    }
    /// A copy for another waiter; the text of the cause replaces the cause.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        let inside = match (&self.0.inside, &self.0.source) {
            (Some(inside), Some(source)) => Some(format!("{inside}: {source}")),
            (Some(inside), None) => Some(inside.clone()),
            (None, Some(source)) => Some(source.to_string()),
            (None, None) => None,
        };
        Self(Box::new(FaultDetails {
            kind: self.0.kind,
            message: self.0.message.clone(),
            inside,
            detail: self.0.detail.clone(),
            missing_path: self.0.missing_path.clone(),
            source: None,
        }))
    }
}

/// Constructors for faults that are raised in several places. The texts are part of the API.
impl Fault {
    /// `file not found: <path>`.
    pub fn file_not_found(path: &TreePath) -> Self {
        Self::new(Kind::NotFound, format!("file not found: {path}")).with_missing_path(path)
    }
    /// Something else does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, message)
    }
    /// `conflict: file was modified since your last read`, with the present ETag.
    pub fn edit_conflict(path: &TreePath, now: Option<ETag>) -> Self {
        let present = match now {
            Some(etag) => format!("`{path}` is now at etag {etag}; read it again, merge, and retry"),
            None => format!("`{path}` does not exist any more; write it without If-Match to create it"),
        };
        let fault = Self::new(Kind::Conflict, format!("conflict: file was modified since your last read: {present}"));
        match now {
            Some(etag) => fault.with_detail("etag", etag.to_string()),
            None => fault,
        }
    }
    /// A path that must be free exists.
    pub fn exists(path: &TreePath) -> Self {
        Self::new(Kind::Exists, format!("`{path}` exists already"))
    }
    /// The value of `field` is invalid.
    pub fn invalid(field: &str, why: impl fmt::Display) -> Self {
        Self::new(Kind::Invalid, format!("`{field}`: {why}"))
    }
    /// A gate refused the content.
    pub fn rejected(message: impl Into<String>) -> Self {
        Self::new(Kind::Rejected, message)
    }
    /// A component is switched off or cannot answer; the caller sees the reason.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Kind::Unavailable, message)
    }
    /// A failure of the server; the caller sees a generic message.
    pub fn internal(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(Kind::Internal, "internal error; the server's log has the details").with_source(source)
    }
    /// A directory where a file was needed.
    pub fn is_directory(path: &TreePath) -> Self {
        Self::new(Kind::IsDirectory, format!("`{path}` is a directory, not a file"))
    }
    /// A file where a directory was needed.
    pub fn not_directory(path: &TreePath) -> Self {
        Self::new(Kind::NotDirectory, format!("`{path}` is a file, not a directory"))
    }
    /// `disk full: no space left for <what>`; `what` is a path, or says what was to be written.
    pub fn disk_full(what: impl fmt::Display) -> Self {
        Self::new(Kind::NoSpace, format!("{DISK_FULL}: no space left for {what}"))
    }
    /// A body or file over `limit` bytes.
    pub fn too_large(what: impl fmt::Display, limit: usize) -> Self {
        Self::new(Kind::TooLarge, format!("{what} exceeds {} MB limit", limit >> 20))
    }
    /// An error of the operating system about `path`.
    pub fn io(path: &TreePath, error: std::io::Error) -> Self {
        use std::io::ErrorKind as E;
        match error.kind() {
            E::NotFound => Self::file_not_found(path),
            E::AlreadyExists => Self::exists(path),
            E::IsADirectory => Self::is_directory(path),
            E::NotADirectory => Self::new(Kind::NotDirectory, format!("a part of `{path}` is not a directory")),
            E::DirectoryNotEmpty => Self::new(Kind::NotEmpty, format!("directory `{path}` is not empty")),
            E::StorageFull | E::QuotaExceeded => Self::disk_full(format_args!("`{path}`")).with_source(error),
            E::FileTooLarge => Self::too_large(format_args!("`{path}`"), crate::MAX_FILE_BYTES).with_source(error),
            E::ReadOnlyFilesystem => Self::new(Kind::ReadOnly, format!("`{path}`: the disk is read-only")),
            E::PermissionDenied => {
                Self::new(Kind::Forbidden, format!("`{path}`: permission denied on the server's disk"))
                    .with_source(error)
            }
            E::CrossesDevices => {
                let text =
                    format!("`{path}` lies below a mount point inside the root, where files cannot be put in place");
                Self::new(Kind::Forbidden, text).with_source(error)
            }
            _ if is_failure(&error) => {
                Self::new(Kind::DiskFailed, format!("`{path}`: the server's disk failed: input/output error"))
                    .with_source(error)
            }
            E::InvalidFilename => Self::new(Kind::NameTooLong, format!("`{path}`: a name is too long for the disk")),
            _ => Self::internal(error).with_context(format!("input/output on `{path}`")),
        }
    }
}

/// Whether the disk failed (EIO), for which the standard library has no kind.
fn is_failure(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(Kind::DiskFailed.errno())
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.message)
    }
}

/// For the log: both messages and the chain of causes.
impl fmt::Debug for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.0.kind.name(), self.0.message)?;
        if let Some(inside) = &self.0.inside {
            write!(formatter, " ({inside})")?;
        }
        let mut cause: Option<&dyn Error> = self.source();
        while let Some(error) = cause {
            write!(formatter, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl Error for Fault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
