//! Description of HTTP routes.

/// The prefix of all routes of spaces.
pub const API_PREFIX: &str = "/api/svc";

/// A request method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HttpMethod {
    /// Reads.
    Get,
    /// Creates, or performs another action.
    Post,
    /// Replaces.
    Put,
    /// Changes a part.
    Patch,
    /// Removes.
    Delete,
}

impl HttpMethod {
    /// The name in HTTP.
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

/// How a request body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    /// No body: all arguments are in path and query.
    Empty,
    /// A JSON object with the arguments; those in [`Route::query`] may be in the query instead.
    Json,
    /// Text that becomes this argument; the others are in the query.
    Raw(&'static str),
    /// A JSON object with any members that becomes this argument; the others are in the query.
    Object(&'static str),
    /// A form (`multipart/form-data`). The part `file` becomes the arguments `file` and `name`; the
    /// other parts become the arguments with their names, which may also be in the query. Or a JSON
    /// object with all arguments.
    Form,
}

/// The media type of a response that is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseMedia {
    /// Fixed, such as `text/plain; charset=utf-8`.
    Fixed(&'static str),
    /// By the extension of the output's `path`.
    FromPath,
}

/// An HTTP route: below `/api/svc` and `/api/svc/{space}`, or at the root of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Request method.
    pub method: HttpMethod,
    /// Path below the prefix, or full path; starts with `/`; `{name}` is a parameter.
    pub path: &'static str,
    /// How the body is read.
    pub body: BodyKind,
    /// A media type and a boolean argument that it sets to true.
    pub media_flag: Option<(&'static str, &'static str)>,
    /// Arguments of a JSON route that may be in the query.
    pub query_inputs: &'static [&'static str],
    /// Whether path parameters override the body, so that a response can be sent back unchanged.
    pub path_wins: bool,
    /// Arguments of which one is required; the operation checks it.
    pub required_one_of: &'static [&'static str],
    /// The output field that becomes the response body as text of this type. An output without that
    /// field is sent as JSON.
    pub text_field: Option<(&'static str, ResponseMedia)>,
    /// The output field that becomes the JSON response if [`Route::text_field`] is absent.
    pub json_fallback: Option<&'static str>,
    /// The media type of a JSON response, if not the usual one.
    pub json_media_type: Option<&'static str>,
    /// Pairs of output field (a string) and response header. An absent field gives no header.
    pub headers: &'static [(&'static str, &'static str)],
    /// Whether the output's `etag` becomes the `ETag` header and its `modified`, if present,
    /// `Last-Modified`; a read then answers 304 to a client with a current copy.
    pub has_etag: bool,
    /// Status of a success: 200, 201 or 204.
    pub success_status: u16,
    /// Whether the path is not below the prefix of spaces.
    pub is_at_root: bool,
    /// Whether it changes nothing: every `GET`, and a `POST` with a long query.
    pub is_read_only: bool,
}

impl Route {
    const fn new(method: HttpMethod, path: &'static str, body: BodyKind) -> Self {
        Self {
            method,
            path,
            body,
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
    /// A `GET` route.
    pub const fn get(path: &'static str) -> Self {
        Self::new(HttpMethod::Get, path, BodyKind::Empty)
    }
    /// A `POST` route with a JSON body.
    pub const fn post(path: &'static str) -> Self {
        Self::new(HttpMethod::Post, path, BodyKind::Json)
    }
    /// A `PUT` route with a JSON body.
    pub const fn put(path: &'static str) -> Self {
        Self::new(HttpMethod::Put, path, BodyKind::Json)
    }
    /// A `PATCH` route with a JSON body.
    pub const fn patch(path: &'static str) -> Self {
        Self::new(HttpMethod::Patch, path, BodyKind::Json)
    }
    /// A `DELETE` route.
    pub const fn delete(path: &'static str) -> Self {
        Self::new(HttpMethod::Delete, path, BodyKind::Empty)
    }
    /// The body is text and becomes the argument `field`; the others are in the query.
    #[must_use]
    pub const fn raw(mut self, field: &'static str) -> Self {
        self.body = BodyKind::Raw(field);
        self
    }
    /// The body is a JSON object and becomes the argument `field`; the others are in the query.
    #[must_use]
    pub const fn object(mut self, field: &'static str) -> Self {
        self.body = BodyKind::Object(field);
        self
    }
    /// The body may be a JSON object with the arguments, which may also be in the query.
    #[must_use]
    pub const fn json_or_query(mut self, inputs: &'static [&'static str]) -> Self {
        self.body = BodyKind::Json;
        self.query_inputs = inputs;
        self
    }
    /// The body is a form with a file.
    #[must_use]
    pub const fn form(mut self) -> Self {
        self.body = BodyKind::Form;
        self
    }
    /// A body of media type `mime` sets the boolean argument `input` to true.
    #[must_use]
    pub const fn media_flag(mut self, mime: &'static str, input: &'static str) -> Self {
        self.media_flag = Some((mime, input));
        self
    }
    /// These arguments of a JSON route may be in the query.
    #[must_use]
    pub const fn query(mut self, inputs: &'static [&'static str]) -> Self {
        self.query_inputs = inputs;
        self
    }
    /// Path parameters override the body.
    #[must_use]
    pub const fn path_wins(mut self) -> Self {
        self.path_wins = true;
        self
    }
    /// One of these arguments is required.
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
    /// The response body is the output's `field`, as text; the type follows from the extension of
    /// the output's `path`.
    #[must_use]
    pub const fn text_from_path(mut self, field: &'static str) -> Self {
        self.text_field = Some((field, ResponseMedia::FromPath));
        self
    }
    /// The response is the output's `field` as JSON if it is present and the text is not.
    #[must_use]
    pub const fn json_fallback(mut self, field: &'static str) -> Self {
        self.json_fallback = Some(field);
        self
    }
    /// A JSON response has this media type, such as `application/feed+json`.
    #[must_use]
    pub const fn json_media_type(mut self, mime: &'static str) -> Self {
        self.json_media_type = Some(mime);
        self
    }
    /// These output fields also become headers: pairs of field and header.
    #[must_use]
    pub const fn headers(mut self, headers: &'static [(&'static str, &'static str)]) -> Self {
        self.headers = headers;
        self
    }
    /// The output's `etag` becomes the `ETag` header, and its `modified` (RFC 3339), if present,
    /// `Last-Modified`.
    #[must_use]
    pub const fn etag(mut self) -> Self {
        self.has_etag = true;
        self
    }
    /// It changes nothing, though the method is not `GET`.
    #[must_use]
    pub const fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self
    }
    /// The path is not below the prefix of spaces.
    #[must_use]
    pub const fn at_root(mut self) -> Self {
        self.is_at_root = true;
        self
    }
    /// The full path, for the primary space.
    pub fn full_path(&self) -> String {
        if self.is_at_root { self.path.to_owned() } else { format!("{API_PREFIX}{}", self.path) }
    }
    /// Success is `201 Created`.
    #[must_use]
    pub const fn created(mut self) -> Self {
        self.success_status = 201;
        self
    }
    /// Success is `204 No Content`, without a body.
    #[must_use]
    pub const fn no_content(mut self) -> Self {
        self.success_status = 204;
        self
    }
}
