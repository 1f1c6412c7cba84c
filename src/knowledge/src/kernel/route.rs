//! How an operation is reached over HTTP, as data.

/// The prefix of all knowledge endpoints (contract 4.1).
pub const API_PREFIX: &str = "/api/svc";

/// A request method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HttpMethod {
    /// Reads; changes nothing.
    Get,
    /// Creates, or does something that fits no other method.
    Post,
    /// Replaces as a whole.
    Put,
    /// Changes a part.
    Patch,
    /// Removes.
    Delete,
}

impl HttpMethod {
    /// The method's name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// What a request body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    /// No body: every input comes from the path and the query.
    Empty,
    /// A JSON object with the inputs; only inputs named by [`Route::query`] may stand in the query instead.
    Json,
    /// Text that becomes this one input; the others come from the query.
    Raw(&'static str),
    /// A JSON object, whatever its members, that becomes this one input; the others come from the query.
    Object(&'static str),
    /// A form (`multipart/form-data`) whose part `file` becomes the inputs `file` and `name`, and whose other parts become the inputs of
    /// their names, which may also stand in the query; or a JSON object with all inputs.
    Form,
}

/// The media type of a response that is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseMedia {
    /// Always this one, such as `text/plain; charset=utf-8`.
    Fixed(&'static str),
    /// By the extension of the output's `path`.
    FromPath,
}

/// One way to reach an operation: below `/api/svc` and `/api/svc/{space}`, or at the root of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Request method.
    pub method: HttpMethod,
    /// Path below the prefix, or whole, beginning with `/`; `{name}` is a parameter.
    pub path: &'static str,
    /// What the body is.
    pub body: BodyKind,
    /// A media type and a boolean input: a body sent as that type sets the input to true.
    pub media_flag: Option<(&'static str, &'static str)>,
    /// Inputs of a JSON route that may (also) stand in the query.
    pub query_inputs: &'static [&'static str],
    /// Whether what the path says beats what the body says of the same input, so that an answer can be sent back as it came.
    pub path_wins: bool,
    /// Inputs of which one must be given; the operation checks it, the description tells it where it can.
    pub required_one_of: &'static [&'static str],
    /// The output field that is the response body as text of this type, when the response is not JSON. An output without
    /// that field is answered as JSON.
    pub text_field: Option<(&'static str, ResponseMedia)>,
    /// The output field that is the whole JSON answer when the output has it and not the field of [`Route::answers`].
    pub json_fallback: Option<&'static str>,
    /// The media type of a JSON answer that has one of its own.
    pub json_media_type: Option<&'static str>,
    /// Output fields, texts all of them, that also stand in a header: field and header. An absent field gives no header.
    pub headers: &'static [(&'static str, &'static str)],
    /// Whether the output's `etag` becomes the `ETag` header and its `modified`, when it has one, `Last-Modified`; a reading route
    /// then answers 304 to a caller whose copy is still right.
    pub has_etag: bool,
    /// Status of a success: 200, 201 or 204.
    pub success_status: u16,
    /// Whether the path is one of the server's own, not below the prefix of spaces.
    pub is_at_root: bool,
    /// Whether it changes nothing: every `GET`, and what is asked by `POST` only because the question is long.
    pub is_read_only: bool,
}

impl Route {
    const fn new(method: HttpMethod, path: &'static str, accepts: BodyKind) -> Self {
        Self {
            method,
            path,
            body: accepts,
            media_flag: None,
            query_inputs: &[],
            path_wins: false,
            required_one_of: &[],
            text_field: None,
            json_fallback: None,
            json_media_type: None,
            headers: &[],
            has_etag: false,
            success_status: 200,
            is_at_root: false,
            is_read_only: matches!(method, HttpMethod::Get),
        }
    }
    /// Reads at `path`.
    pub const fn get(path: &'static str) -> Self {
        Self::new(HttpMethod::Get, path, BodyKind::Empty)
    }
    /// Does something at `path`, given a JSON body.
    pub const fn post(path: &'static str) -> Self {
        Self::new(HttpMethod::Post, path, BodyKind::Json)
    }
    /// Replaces what is at `path` by a JSON body.
    pub const fn put(path: &'static str) -> Self {
        Self::new(HttpMethod::Put, path, BodyKind::Json)
    }
    /// Changes what is at `path` by a JSON body.
    pub const fn patch(path: &'static str) -> Self {
        Self::new(HttpMethod::Patch, path, BodyKind::Json)
    }
    /// Removes what is at `path`.
    pub const fn delete(path: &'static str) -> Self {
        Self::new(HttpMethod::Delete, path, BodyKind::Empty)
    }
    /// The body is text and becomes the input `field`; all other inputs come from the query.
    #[must_use]
    pub const fn raw(mut self, field: &'static str) -> Self {
        self.body = BodyKind::Raw(field);
        self
    }
    /// The body is a JSON object and becomes the input `field`, whole; all other inputs come from the query.
    #[must_use]
    pub const fn object(mut self, field: &'static str) -> Self {
        self.body = BodyKind::Object(field);
        self
    }
    /// The body is a form with a file.
    #[must_use]
    pub const fn form(mut self) -> Self {
        self.body = BodyKind::Form;
        self
    }
    /// A body of the media type `mime` sets the boolean `input` to true.
    #[must_use]
    pub const fn media_flag(mut self, mime: &'static str, input: &'static str) -> Self {
        self.media_flag = Some((mime, input));
        self
    }
    /// These inputs of a JSON route may stand in the query.
    #[must_use]
    pub const fn query(mut self, inputs: &'static [&'static str]) -> Self {
        self.query_inputs = inputs;
        self
    }
    /// What the path says beats what the body says of the same input.
    #[must_use]
    pub const fn path_wins(mut self) -> Self {
        self.path_wins = true;
        self
    }
    /// One of these inputs must be given, and which is not said by any of them alone.
    #[must_use]
    pub const fn required_one_of(mut self, inputs: &'static [&'static str]) -> Self {
        self.required_one_of = inputs;
        self
    }
    /// The response body is the output's `field`, as text of type `mime`.
    #[must_use]
    pub const fn text(mut self, field: &'static str, mime: &'static str) -> Self {
        self.text_field = Some((field, ResponseMedia::Fixed(mime)));
        self
    }
    /// The response body is the output's `field`, as text of the type that goes with the extension of the output's `path`.
    #[must_use]
    pub const fn text_from_path(mut self, field: &'static str) -> Self {
        self.text_field = Some((field, ResponseMedia::FromPath));
        self
    }
    /// The whole answer is the output's `field` as JSON, when the output has it and no text.
    #[must_use]
    pub const fn json_fallback(mut self, field: &'static str) -> Self {
        self.json_fallback = Some(field);
        self
    }
    /// A JSON answer is of this media type, such as `application/feed+json`.
    #[must_use]
    pub const fn json_media_type(mut self, mime: &'static str) -> Self {
        self.json_media_type = Some(mime);
        self
    }
    /// These output fields also stand in headers: field and header.
    #[must_use]
    pub const fn headers(mut self, headers: &'static [(&'static str, &'static str)]) -> Self {
        self.headers = headers;
        self
    }
    /// The output's `etag` becomes the `ETag` header, and its `modified` (RFC 3339), if any, `Last-Modified`.
    #[must_use]
    pub const fn etag(mut self) -> Self {
        self.has_etag = true;
        self
    }
    /// It changes nothing, though its method is not `GET`.
    #[must_use]
    pub const fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self
    }
    /// The path is the server's own, whole as it is.
    #[must_use]
    pub const fn at_root(mut self) -> Self {
        self.is_at_root = true;
        self
    }
    /// The whole path, in the space that answers when none is named.
    pub fn full_path(&self) -> String {
        if self.is_at_root { self.path.to_owned() } else { format!("{API_PREFIX}{}", self.path) }
    }
    /// A success is `201 Created`.
    #[must_use]
    pub const fn created(mut self) -> Self {
        self.success_status = 201;
        self
    }
    /// A success is `204 No Content`, without a body.
    #[must_use]
    pub const fn no_content(mut self) -> Self {
        self.success_status = 204;
        self
    }
}
