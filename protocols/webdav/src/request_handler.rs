//! One request, from method and path to answer.

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
use crate::normalize::understood;
use crate::proppatch::WindowsProperties;
use crate::unicode_names::StoredName;
use crate::{WebdavServer, body, propfind, public_url};

/// What begins the first part of the path of a space that is named: `/~team/notes.md`.
const NAMED: char = '~';
/// Bytes of a file handed to a connection at once.
const PIECE: usize = 256 << 10;

/// Tells that the time of a file is the one that a client gave (ownCloud, rclone).
const OC_MTIME: HeaderName = HeaderName::from_static("x-oc-mtime");

/// What is done to folders: what else is asked of one is answered with 405.
const OF_FOLDERS: &str = "OPTIONS, PROPFIND, PROPPATCH, COPY, MOVE, DELETE, LOCK, UNLOCK";

/// What an answer carries.
pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// A space, and what its paths begin with.
struct RoutedSpace {
    space: Arc<Space>,
    prefix: String,
}

impl RoutedSpace {
    /// The same, where a proxy takes this off its addresses.
    fn reached_by(self, outside: &str) -> Self {
        Self { prefix: format!("{outside}{}", self.prefix), ..self }
    }
}

impl WebdavServer {
    /// Answers a request, whatever it is.
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
                refusal(&fault)
            }
        };
        if response.status() == StatusCode::METHOD_NOT_ALLOWED && !response.headers().contains_key(header::ALLOW) {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(OF_FOLDERS));
        }
        if is_file {
            // Files come from many hands, and a page among them would run with the rights of whoever looks.
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
        let outside = public_url::prefix(self.public.as_ref().map(PublicUrl::path), &head.headers, peer);
        let place = self.place(head.uri.path(), &identity)?.reached_by(&outside);
        visit.notes().set_space(&place.space);
        identity.permissions.check_scope(needs(&head.method), head.method.as_str())?;
        head.uri = public_url::with_path(&head.uri, &format!("{outside}{}", head.uri.path()))?;
        let destination = self.destination(&head.headers, (&place, &identity), &outside)?;
        let caller = Caller { actor: user.map(|user| Actor::new(&user)), ..Caller::new(svcfs_base::Protocol::WebDav) };
        let caller = identity.apply_to(caller);
        visit.notes().set_actor(caller.actor());
        let head = self.as_stored(head, destination, (&place, &caller, &outside)).await?;
        let principal = caller.actor().to_string();
        let content = body::content(&head.method, body).await?;
        let question = RequestDetails::of(&head, &content, &place.prefix);
        question.path().iter().for_each(|path| visit.notes().set_file(path.as_str()));
        let asked = WebdavRequestContext::new(Arc::clone(self), Arc::clone(&place.space), caller, question);
        let locks = WebdavLocks { asked: asked.clone(), prefix: place.prefix };
        if head.method.as_str() == "PROPFIND"
            && let Some(path) = asked.path()
        {
            return propfind::answer((&asked, &locks), path.clone(), (&head, content.here())).await;
        }
        asked.is_told_by_windows(WindowsProperties::of(asked.sent())?);
        let handler = handler(locks.clone());
        let request = Request::from_parts(head, content);
        let response = handler.handle_guarded(request, principal, asked.clone()).await;
        let mut response = response.map(BodyExt::boxed_unsync);
        if asked.has_set_time() && response.status().is_success() {
            response.headers_mut().insert(OC_MTIME, HeaderValue::from_static("accepted"));
        }
        let fault = asked.fault();
        if let Some(fault) = &fault {
            log_fault(fault, what);
            response = told_instead((&response, asked.is_replacing()), fault).unwrap_or(response);
        }
        if response.status() == StatusCode::LOCKED {
            return Ok(locked(response, &locks, fault.as_ref()));
        }
        match (asked.of_windows(), asked.path()) {
            (Some(said), Some(path)) => said.keep((&asked, path.clone()), response).await,
            _ => Ok(response),
        }
    }

    /// Who sent a request.
    async fn identify(&self, headers: &HeaderMap) -> Result<CallerIdentity, Fault> {
        let access = self.server.access();
        if access.is_open() {
            // Where nothing is asked for, a header that other servers ask for does no harm.
            return Ok(CallerIdentity::UNRESTRICTED);
        }
        let HttpCredentials { key, .. } = HttpCredentials::from_headers(headers)?;
        if key.as_deref().is_some_and(|key| access.needs_issuer_keys(key)) {
            let server = Arc::clone(&self.server);
            svcfs_listener::run_blocking(&self.lanes, Lane::Slow, move || server.access().fetch_issuer_keys()).await?;
        }
        access.identify(key.as_deref())
    }

    /// The space that a path lies in: the first one, but below `/~NAME`, where there is a space of that name that who asks may enter. For who may not it is
    /// a file's name like any other, so that it tells nothing of which spaces there are.
    fn place(&self, path: &str, identity: &CallerIdentity) -> Result<RoutedSpace, Fault> {
        let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
        let first = percent_decode_str(first).decode_utf8_lossy();
        let spaces = self.server.spaces();
        let is_open_to_them = |name: &&str| spaces.status(name).is_ok() && identity.check_space(name).is_ok();
        match first.strip_prefix(NAMED).filter(is_open_to_them) {
            Some(name) => Ok(RoutedSpace { space: spaces.find(name)?, prefix: format!("/{first}") }),
            None => {
                identity.check_space(&spaces.first().name)?;
                Ok(RoutedSpace { space: Arc::clone(spaces.first()), prefix: String::new() })
            }
        }
    }

    /// Where a copy or a move ends: on the server and in the space it begins in, by the address that the space has in the request.
    fn destination(
        &self,
        headers: &HeaderMap,
        (place, identity): (&RoutedSpace, &CallerIdentity),
        outside: &str,
    ) -> Result<Option<String>, Fault> {
        let Some(destination) = headers.get("destination") else { return Ok(None) };
        let uri = destination.to_str().ok().and_then(|text| text.parse::<Uri>().ok());
        let uri = uri.ok_or_else(|| Fault::invalid("Destination", "must be the URL or the path of a file here"))?;
        if !self.is_ours(&uri, headers) {
            let told = "`Destination` lies on another server; if it is this one, set `server.public_url`";
            return Err(Fault::new(Kind::Upstream, told));
        }
        let target = public_url::within(uri.path(), outside);
        let there = self.place(target, identity)?;
        if there.space.name != place.space.name {
            let told = "`Destination` lies in another space; copy it there by reading and writing it";
            return Err(Fault::new(Kind::Upstream, told));
        }
        // What names the space is its first part, however it is encoded.
        let path = match there.prefix.is_empty() {
            true => target,
            false => target.trim_start_matches('/').split_once('/').map_or("", |(_, rest)| rest),
        };
        let path = path.trim_start_matches('/');
        let decoded = percent_decode_str(path).decode_utf8();
        TreePath::parse(&decoded.map_err(|_| Fault::invalid("Destination", "must be UTF-8"))?)?;
        Ok(Some(format!("{}/{path}", place.prefix)))
    }

    /// A request as dav-server is to see it: about names as they are stored.
    async fn as_stored(
        &self,
        mut head: Parts,
        mut destination: Option<String>,
        (place, caller, outside): (&RoutedSpace, &Caller, &str),
    ) -> Result<Parts, Fault> {
        let mut renamed = Vec::new();
        let paths = [Some(head.uri.path().to_owned()), destination.clone()];
        // Nearly all names have one form only.
        if paths.iter().flatten().any(|path| percent_decode_str(path).any(|byte| !byte.is_ascii())) {
            let (space, caller, prefix) = (Arc::clone(&place.space), caller.clone(), place.prefix.clone());
            let look = move || {
                let look = |path: Option<String>| match path {
                    Some(path) => StoredName::of((&space.vfs, &caller), &prefix, &path),
                    None => Ok(None),
                };
                paths.map(look).into_iter().collect::<Result<Vec<_>, Fault>>()
            };
            let found = svcfs_listener::run_blocking(&self.lanes, Lane::Quick, look).await?;
            if let Some(Some(of_request)) = found.first() {
                head.uri = of_request.in_uri(&head.uri)?;
            }
            if let Some(Some(of_destination)) = found.get(1) {
                destination = Some(of_destination.path().to_owned());
            }
            renamed = found.into_iter().flatten().collect();
        }
        let destination = destination.map(|path| HeaderValue::from_str(&path)).transpose();
        let destination = destination.map_err(|error| Fault::invalid("Destination", error))?;
        let resource = |path: &str| {
            let path = format!("{outside}{}", public_url::within(path, outside));
            StoredName::of_same(&renamed, &path).to_owned()
        };
        understood(head, destination, &resource)
    }

    /// Whether a URL is one of the server that a request was sent to, under the name it was sent to or that a proxy was asked for.
    fn is_ours(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let Some(there) = uri.authority() else { return true };
        let is_same = |here: &str| {
            let here = here.split(',').next().and_then(|first| first.trim().parse::<Authority>().ok());
            // Clients say the port of the protocol, or leave it out.
            let port = |authority: &Authority| authority.port_u16().filter(|port| !matches!(port, 80 | 443));
            here.is_some_and(|here| here.host().eq_ignore_ascii_case(there.host()) && port(&here) == port(there))
        };
        let told = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let public = self.server.settings().server.public_url.as_ref();
        ["host", "x-forwarded-host"].into_iter().filter_map(told).any(is_same)
            || [public, self.public.as_ref()]
                .into_iter()
                .flatten()
                .any(|public| public.host().eq_ignore_ascii_case(there.host()))
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
        .read_buf_size(PIECE)
        .build_handler()
}

/// What a method asks of a key.
fn needs(method: &Method) -> Scope {
    let reads = ["GET", "HEAD", "OPTIONS", "PROPFIND"];
    if reads.contains(&method.as_str()) { Scope::Read } else { Scope::Write }
}

/// The answer where dav-server has no word for what happened: its errors have ten values, and no text. Of what `is_replacing` no part was done, and there is
/// no list of parts to be told (207).
fn told_instead(
    (response, is_replacing): (&Response<ResponseBody>, bool),
    fault: &Fault,
) -> Option<Response<ResponseBody>> {
    let status = response.status();
    let is_list = is_replacing && status == StatusCode::MULTI_STATUS;
    let is_better = is_list || status.is_client_error() || status.is_server_error();
    let is_ours = match fault.kind() {
        // Which of 403, 404, 405, 409 and 412 it is hangs on the method, and dav-server knows.
        Kind::NotFound | Kind::Exists | Kind::Stale => false,
        Kind::Conflict
        | Kind::Locked
        | Kind::PreconditionFailed
        | Kind::Invalid
        | Kind::Rejected
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
        | Kind::Unavailable
        | Kind::Upstream
        | Kind::NoSpace
        | Kind::DiskFailed
        | Kind::Internal => true,
    };
    (is_better && is_ours).then(|| refusal(fault))
}

/// The answer to whoever met a lock, which names that lock.
fn locked(response: Response<ResponseBody>, locks: &WebdavLocks, fault: Option<&Fault>) -> Response<ResponseBody> {
    let told = fault.filter(|fault| fault.kind() == Kind::Locked).map(Fault::message);
    let Some(body) = locks.refusal(told) else { return response };
    let (mut head, _) = response.into_parts();
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/xml; charset=utf-8"));
    Response::from_parts(head, Full::from(body).map_err(|never| match never {}).boxed_unsync())
}

/// An answer in words; what is wrong inside is for the log alone.
fn refusal(fault: &Fault) -> Response<ResponseBody> {
    let status = match fault.kind() {
        // Conditions of this protocol fail with 412; a collection is written by none of them.
        Kind::Conflict => StatusCode::PRECONDITION_FAILED,
        Kind::IsDirectory => StatusCode::METHOD_NOT_ALLOWED,
        Kind::NotDirectory => StatusCode::CONFLICT,
        Kind::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
        other => StatusCode::from_u16(other.http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
    };
    let told = match fault.kind() {
        Kind::Internal | Kind::DiskFailed => "the server failed; its log says why",
        _ => fault.message(),
    };
    let mut response = Response::new(Full::from(format!("{told}\n")).map_err(|never| match never {}).boxed_unsync());
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
    // What is left of a body that nobody reads would be taken for the next request.
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
