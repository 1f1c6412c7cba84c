//! Handles a request: route, context, dav-server, and the response.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use dav_server::{DavHandler, DavMethod, DavMethodSet};
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;
use svcfs_base::{Actor, Caller, Fault, Kind, Scope, TreePath};
use svcfs_config::PublicUrl;
use svcfs_knowledge::access::{CallerIdentity, RETRY_AFTER_KEY};
use svcfs_knowledge::audit::{RequestHead, TrackedRequest as Visit};
use svcfs_knowledge::kernel::Space;
use svcfs_listener::{HttpCredentials, log_fault};
use svcfs_work::Lane;

use crate::context::{RequestDetails, WebdavRequestContext};
use crate::file_system::WebdavFileSystem;
use crate::locks::WebdavLocks;
use crate::normalize::normalize;
use crate::proppatch::WindowsProperties;
use crate::unicode_names::StoredName;
use crate::{WebdavServer, body, propfind, public_url};

/// First character of a path segment that names a space: `/~team/notes.md`.
const SPACE_MARKER: char = '~';
/// Bytes of one read for a response.
const READ_BYTES: usize = 256 << 10;

/// Confirms that the modification time of the client was applied (ownCloud, rclone).
const OC_MTIME: HeaderName = HeaderName::from_static("x-oc-mtime");

/// Methods for folders; others are answered with 405.
const FOLDER_METHODS: &str = "OPTIONS, PROPFIND, PROPPATCH, COPY, MOVE, DELETE, LOCK, UNLOCK";

/// What an answer carries.
pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// A space, and the prefix of its URL paths.
struct RoutedSpace {
    space: Arc<Space>,
    prefix: String,
}

impl RoutedSpace {
    /// Adds the prefix that a proxy strips.
    fn with_proxy_prefix(self, proxy_prefix: &str) -> Self {
        Self { prefix: format!("{proxy_prefix}{}", self.prefix), ..self }
    }
}

impl WebdavServer {
    /// Answers any request.
    pub(crate) async fn answer(self: &Arc<Self>, request: Request<Incoming>, peer: IpAddr) -> Response<ResponseBody> {
        let head = RequestHead {
            protocol: svcfs_base::Protocol::WebDav,
            method: request.method().as_str().to_owned(),
            path: request.uri().path().to_owned(),
            query: request.uri().query().unwrap_or_default().to_owned(),
            peer: Some(peer),
            id: None,
        };
        let visit = Visit::start(&self.server, head);
        let what = format!("{} {}", request.method(), request.uri().path().escape_default());
        let is_file = matches!(*request.method(), Method::GET | Method::HEAD);
        let mut response = match svcfs_listener::catch_panic(self.route((request, peer), &what, &visit)).await {
            Ok(response) => response,
            Err(fault) => {
                log_fault(&fault, &what);
                fault_response(&fault)
            }
        };
        if response.status() == StatusCode::METHOD_NOT_ALLOWED && !response.headers().contains_key(header::ALLOW) {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(FOLDER_METHODS));
        }
        if is_file {
            // Files come from many authors; a page must not run scripts with the rights of its
            // reader.
            let headers = response.headers_mut();
            headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            let policy = HeaderValue::from_static("sandbox; default-src 'none'");
            headers.insert(header::CONTENT_SECURITY_POLICY, policy);
        }
        visit.finish(response.status().as_u16());
        response
    }

    async fn route(
        self: &Arc<Self>,
        (request, peer): (Request<Incoming>, IpAddr),
        what: &str,
        visit: &Visit,
    ) -> Result<Response<ResponseBody>, Fault> {
        svcfs_listener::validate_request(&request)?;
        let (mut head, body) = request.into_parts();
        self.names.check(&head.headers)?;
        let HttpCredentials { user, key } = HttpCredentials::from_headers(&head.headers).unwrap_or_default();
        let identity = self.identify(&head.headers).await;
        user.iter().for_each(|user| visit.notes().set_actor(Actor::new(user)));
        visit.admit(identity.as_ref().ok(), key.as_deref())?;
        let identity = identity?;
        let proxy_prefix = public_url::prefix(self.public.as_ref().map(PublicUrl::path), &head.headers, peer);
        let route = self.find_space(head.uri.path(), &identity)?.with_proxy_prefix(&proxy_prefix);
        visit.notes().set_space(&route.space);
        identity.permissions.check_scope(required_scope(&head.method), head.method.as_str())?;
        head.uri = public_url::with_path(&head.uri, &format!("{proxy_prefix}{}", head.uri.path()))?;
        let destination = self.destination(&head.headers, (&route, &identity), &proxy_prefix)?;
        let caller = Caller { actor: user.map(|user| Actor::new(&user)), ..Caller::new(svcfs_base::Protocol::WebDav) };
        let caller = identity.apply_to(caller);
        visit.notes().set_actor(caller.actor());
        let head = self.with_stored_names(head, destination, (&route, &caller, &proxy_prefix)).await?;
        let principal = caller.actor().to_string();
        let content = body::receive(&head.method, body).await?;
        let details = RequestDetails::of(&head, &content, &route.prefix);
        details.path().iter().for_each(|path| visit.notes().set_file(path.as_str()));
        let context = WebdavRequestContext::new(Arc::clone(self), Arc::clone(&route.space), caller, details);
        let locks = WebdavLocks { context: context.clone(), prefix: route.prefix };
        if head.method.as_str() == "PROPFIND"
            && let Some(path) = context.path()
        {
            return propfind::answer((&context, &locks), path.clone(), (&head, content.buffered())).await;
        }
        context.set_windows_properties(WindowsProperties::of(context.property_updates())?);
        let handler = handler(locks.clone());
        let request = Request::from_parts(head, content);
        let response = handler.handle_guarded(request, principal, context.clone()).await;
        let mut response = response.map(BodyExt::boxed_unsync);
        if context.has_set_time() && response.status().is_success() {
            response.headers_mut().insert(OC_MTIME, HeaderValue::from_static("accepted"));
        }
        let fault = context.take_fault();
        if let Some(fault) = &fault {
            log_fault(fault, what);
            response = better_response((&response, context.is_replacing()), fault).unwrap_or(response);
        }
        if response.status() == StatusCode::LOCKED {
            return Ok(locked_response(response, &locks, fault.as_ref()));
        }
        match (context.take_windows_properties(), context.path()) {
            (Some(properties), Some(path)) => properties.apply_after((&context, path.clone()), response).await,
            _ => Ok(response),
        }
    }

    /// Identifies the caller.
    async fn identify(&self, headers: &HeaderMap) -> Result<CallerIdentity, Fault> {
        let access = self.server.access();
        if access.is_open() {
            // Without authentication, a header for another server is ignored.
            return Ok(CallerIdentity::UNRESTRICTED);
        }
        let HttpCredentials { key, .. } = HttpCredentials::from_headers(headers)?;
        if key.as_deref().is_some_and(|key| access.needs_issuer_keys(key)) {
            let server = Arc::clone(&self.server);
            svcfs_listener::run_blocking(&self.lanes, Lane::Slow, move || server.access().fetch_issuer_keys()).await?;
        }
        access.identify(key.as_deref())
    }

    /// Finds the space of a path: below `/~NAME` the space of that name, if the caller may enter
    /// it; else the first space. To a caller without access, `~NAME` is an ordinary file name,
    /// which reveals nothing.
    fn find_space(&self, path: &str, identity: &CallerIdentity) -> Result<RoutedSpace, Fault> {
        let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
        let first = percent_decode_str(first).decode_utf8_lossy();
        let spaces = self.server.spaces();
        let may_enter = |name: &&str| spaces.status(name).is_ok() && identity.check_space(name).is_ok();
        match first.strip_prefix(SPACE_MARKER).filter(may_enter) {
            Some(name) => Ok(RoutedSpace { space: spaces.find(name)?, prefix: format!("/{first}") }),
            None => {
                identity.check_space(&spaces.first().name)?;
                Ok(RoutedSpace { space: Arc::clone(spaces.first()), prefix: String::new() })
            }
        }
    }

    /// Checks the target of COPY or MOVE: it must be on this server and in the same space. Returns
    /// its path with the prefix of the request.
    fn destination(
        &self,
        headers: &HeaderMap,
        (route, identity): (&RoutedSpace, &CallerIdentity),
        proxy_prefix: &str,
    ) -> Result<Option<String>, Fault> {
        let Some(destination) = headers.get("destination") else { return Ok(None) };
        let uri = destination.to_str().ok().and_then(|text| text.parse::<Uri>().ok());
        let uri = uri.ok_or_else(|| Fault::invalid("Destination", "must be a URL or path on this server"))?;
        if !self.is_this_server(&uri, headers) {
            let message = "`Destination` is on another server; if it is this one, set `server.public_url`";
            return Err(Fault::new(Kind::Upstream, message));
        }
        let target = public_url::without_prefix(uri.path(), proxy_prefix);
        let destination_route = self.find_space(target, identity)?;
        if destination_route.space.name != route.space.name {
            let message = "`Destination` is in another space; read the file and write it there";
            return Err(Fault::new(Kind::Upstream, message));
        }
        // The first segment names the space, however it is encoded.
        let path = match destination_route.prefix.is_empty() {
            true => target,
            false => target.trim_start_matches('/').split_once('/').map_or("", |(_, rest)| rest),
        };
        let path = path.trim_start_matches('/');
        let decoded = percent_decode_str(path).decode_utf8();
        TreePath::parse(&decoded.map_err(|_| Fault::invalid("Destination", "must be UTF-8"))?)?;
        Ok(Some(format!("{}/{path}", route.prefix)))
    }

    /// Replaces names by their stored Unicode form.
    async fn with_stored_names(
        &self,
        mut head: Parts,
        mut destination: Option<String>,
        (route, caller, proxy_prefix): (&RoutedSpace, &Caller, &str),
    ) -> Result<Parts, Fault> {
        let mut stored_names = Vec::new();
        let paths = [Some(head.uri.path().to_owned()), destination.clone()];
        // Nearly all names are ASCII.
        if paths.iter().flatten().any(|path| percent_decode_str(path).any(|byte| !byte.is_ascii())) {
            let (space, caller, prefix) = (Arc::clone(&route.space), caller.clone(), route.prefix.clone());
            let lookup_all = move || {
                let lookup = |path: Option<String>| match path {
                    Some(path) => StoredName::of((&space.vfs.tree_of(&caller), &caller), &prefix, &path),
                    None => Ok(None),
                };
                paths.map(lookup).into_iter().collect::<Result<Vec<_>, Fault>>()
            };
            let names = svcfs_listener::run_blocking(&self.lanes, Lane::Quick, lookup_all).await?;
            if let Some(Some(of_request)) = names.first() {
                head.uri = of_request.to_uri(&head.uri)?;
            }
            if let Some(Some(of_destination)) = names.get(1) {
                destination = Some(of_destination.path().to_owned());
            }
            stored_names = names.into_iter().flatten().collect();
        }
        let destination = destination.map(|path| HeaderValue::from_str(&path)).transpose();
        let destination = destination.map_err(|error| Fault::invalid("Destination", error))?;
        let resource = |path: &str| {
            let path = format!("{proxy_prefix}{}", public_url::without_prefix(path, proxy_prefix));
            StoredName::map_path(&stored_names, &path).to_owned()
        };
        normalize(head, destination, &resource)
    }

    /// Whether a URL is on this server: under the name of the request, one forwarded by a proxy, or
    /// a public URL.
    fn is_this_server(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let Some(authority) = uri.authority() else { return true };
        let is_same = |host: &str| {
            let host = host.split(',').next().and_then(|first| first.trim().parse::<Authority>().ok());
            // Clients may omit the default port.
            let port = |authority: &Authority| authority.port_u16().filter(|port| !matches!(port, 80 | 443));
            host.is_some_and(|host| {
                host.host().eq_ignore_ascii_case(authority.host()) && port(&host) == port(authority)
            })
        };
        let header_text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let public = self.server.settings().server.public_url.as_ref();
        ["host", "x-forwarded-host"].into_iter().filter_map(header_text).any(is_same)
            || [public, self.public.as_ref()]
                .into_iter()
                .flatten()
                .any(|public| public.host().eq_ignore_ascii_case(authority.host()))
    }
}

fn handler(locks: WebdavLocks) -> DavHandler<WebdavRequestContext> {
    let mut methods = DavMethodSet::all();
    for method in [DavMethod::Report, DavMethod::MkCalendar, DavMethod::MkAddressbook] {
        methods.remove(method);
    }
    DavHandler::builder()
        .filesystem(Box::new(WebdavFileSystem))
        .strip_prefix(locks.prefix.clone())
        .locksystem(Box::new(locks))
        .methods(methods)
        .autoindex(false)
        .hide_symlinks(false)
        .read_buf_size(READ_BYTES)
        .build_handler()
}

/// The scope that a method requires. With `propose`, changes go into a draft.
fn required_scope(method: &Method) -> Scope {
    let reads = ["GET", "HEAD", "OPTIONS", "PROPFIND"];
    if reads.contains(&method.as_str()) { Scope::Read } else { Scope::Propose }
}

/// A better response where dav-server has no specific error: it knows ten kinds and no text. A
/// failed replacement changed nothing, so a list of partial results (207) would be wrong.
fn better_response(
    (response, is_replacing): (&Response<ResponseBody>, bool),
    fault: &Fault,
) -> Option<Response<ResponseBody>> {
    let status = response.status();
    let is_list = is_replacing && status == StatusCode::MULTI_STATUS;
    let is_better = is_list || status.is_client_error() || status.is_server_error();
    let is_this_server = match fault.kind() {
        // For these, the right status depends on the method, which dav-server knows.
        Kind::NotFound | Kind::Exists | Kind::Stale => false,
        Kind::Conflict
        | Kind::Locked
        | Kind::PreconditionFailed
        | Kind::Invalid
        | Kind::Rejected
        | Kind::NotAllowed
        | Kind::Unauthenticated
        | Kind::Forbidden
        | Kind::ReadOnly
        | Kind::NotDirectory
        | Kind::IsDirectory
        | Kind::NotEmpty
        | Kind::NameTooLong
        | Kind::TooLarge
        | Kind::UnsupportedType
        | Kind::RateLimited
        | Kind::Disabled
        | Kind::NotEnabled
        | Kind::Unavailable
        | Kind::Upstream
        | Kind::FetchFailed
        | Kind::NoSpace
        | Kind::DiskFailed
        | Kind::Internal => true,
    };
    (is_better && is_this_server).then(|| fault_response(fault))
}

/// The response for a locked resource, naming the lock.
fn locked_response(
    response: Response<ResponseBody>,
    locks: &WebdavLocks,
    fault: Option<&Fault>,
) -> Response<ResponseBody> {
    let message = fault.filter(|fault| fault.kind() == Kind::Locked).map(Fault::message);
    let Some(body) = locks.error_body(message) else { return response };
    let (mut head, _) = response.into_parts();
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/xml; charset=utf-8"));
    Response::from_parts(head, Full::from(body).map_err(|never| match never {}).boxed_unsync())
}

/// The response for a fault. Internal details go only to the log.
fn fault_response(fault: &Fault) -> Response<ResponseBody> {
    let status = match fault.kind() {
        // In this protocol, conditions fail with 412, and folders cannot be written.
        Kind::Conflict => StatusCode::PRECONDITION_FAILED,
        Kind::IsDirectory => StatusCode::METHOD_NOT_ALLOWED,
        Kind::NotDirectory => StatusCode::CONFLICT,
        Kind::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
        other => StatusCode::from_u16(other.http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
    };
    let message = match fault.kind() {
        Kind::Internal | Kind::DiskFailed => "internal error; see the server log",
        _ => fault.message(),
    };
    let mut response = Response::new(Full::from(format!("{message}\n")).map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if status == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static("Basic realm=\"svcfs\", charset=\"UTF-8\"");
        headers.insert(header::WWW_AUTHENTICATE, challenge);
    }
    if let Some(seconds) = fault.detail().get(RETRY_AFTER_KEY).and_then(serde_json::Value::as_u64) {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    // An unread rest of the body would be parsed as the next request.
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
