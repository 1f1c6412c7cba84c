//! The route table: routes of operations, and special pages.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;
use matchit::{InsertError, Router};
use svcfs_base::Fault;
use svcfs_knowledge::kernel::{API_PREFIX, HttpMethod, OperationArea, OperationEntry, OperationInputs, Route, Space};

use crate::app::AppState;
use crate::bind::{header, percent_decode};
use crate::specials::{RoutePrefix, SPECIAL_ROUTES, SpecialPage};

/// The target of a route.
#[derive(Debug)]
pub(crate) enum RouteTarget {
    Operation(OperationRoute),
    Special(SpecialPage),
}

/// An operation and one of its routes.
#[derive(Debug)]
pub(crate) struct OperationRoute {
    pub entry: &'static OperationEntry,
    pub route: &'static Route,
    pub inputs: OperationInputs,
}

/// Header that names the space of a request.
pub(crate) const SPACE: &str = "X-Svc-Space";

/// Parameters in the path of a request.
#[derive(Debug, Clone)]
pub(crate) struct RouteParameters {
    /// Path parameters, decoded.
    pub parameters: Vec<(String, String)>,
    /// The space in the path.
    space: Option<String>,
}

impl RouteParameters {
    /// The name of the requested space, if there is one; the header takes precedence over the path.
    /// Errors: `Invalid` for a header that is not UTF-8.
    pub(crate) fn space_name(&self, headers: &HeaderMap) -> Result<Option<String>, Fault> {
        Ok(header(headers, SPACE)?.or_else(|| self.space.clone()))
    }

    /// The requested space. Errors: `NotFound` when there is none of that name.
    pub(crate) fn space(&self, app: &AppState, headers: &HeaderMap) -> Result<Arc<Space>, Fault> {
        app.space(self.space_name(headers)?.as_deref())
    }
}

/// The targets of one path.
type MethodTargets = Vec<(HttpMethod, RouteTarget)>;

/// The result of a lookup.
#[derive(Debug)]
pub(crate) enum RouteMatch<'t> {
    Target {
        target: &'t RouteTarget,
        address: RouteParameters,
    },
    /// The path exists, with other methods: an `Allow` list.
    OtherMethods(String),
    /// No such path.
    NotFound,
}

/// Two tables: below the API prefix, and at the root.
pub(crate) struct RouteTable {
    below_prefix: Router<MethodTargets>,
    at_root: Router<MethodTargets>,
}

impl RouteTable {
    /// The table of a catalogue. Errors: two operations with the same route.
    pub(crate) fn new(catalogue: &'static [OperationArea]) -> Result<Self, InsertError> {
        let (mut below_prefix, mut at_root) =
            (BTreeMap::<_, MethodTargets>::new(), BTreeMap::<_, MethodTargets>::new());
        for entry in catalogue.iter().flat_map(|area| area.operations) {
            for route in entry.http {
                let target =
                    RouteTarget::Operation(OperationRoute { entry, route, inputs: OperationInputs::from_entry(entry) });
                let paths = if route.is_at_root { &mut at_root } else { &mut below_prefix };
                paths.entry(route.path).or_default().push((route.method, target));
            }
        }
        for special in SPECIAL_ROUTES {
            let paths = match special.prefix {
                RoutePrefix::Root => &mut at_root,
                RoutePrefix::Space => &mut below_prefix,
                RoutePrefix::Unrouted => continue,
            };
            let targets = paths.entry(special.path).or_default();
            targets.push((HttpMethod::Get, RouteTarget::Special(special.page)));
        }
        Ok(Self { below_prefix: router(below_prefix)?, at_root: router(at_root)? })
    }

    /// The target of a percent-encoded path and method. Below the prefix, an endpoint's name takes
    /// precedence over a space's. Errors: `Invalid` when the path is not UTF-8.
    pub(crate) fn find(&self, method: &http::Method, path: &str) -> Result<RouteMatch<'_>, Fault> {
        let Some(suffix) = path.strip_prefix(API_PREFIX).filter(|suffix| suffix.starts_with('/')) else {
            return find(&self.at_root, method, path, None);
        };
        match find(&self.below_prefix, method, suffix, None)? {
            RouteMatch::NotFound => {}
            matched_route => return Ok(matched_route),
        }
        match suffix[1..].split_once('/') {
            Some((space, _)) if !space.is_empty() => {
                find(&self.below_prefix, method, &suffix[1 + space.len()..], Some(percent_decode(space)?))
            }
            _ => Ok(RouteMatch::NotFound),
        }
    }
}

fn router(paths: BTreeMap<&'static str, MethodTargets>) -> Result<Router<MethodTargets>, InsertError> {
    let mut router = Router::new();
    for (path, targets) in paths {
        router.insert(path, targets)?;
    }
    Ok(router)
}

fn find<'t>(
    router: &'t Router<MethodTargets>,
    method: &http::Method,
    path: &str,
    space: Option<String>,
) -> Result<RouteMatch<'t>, Fault> {
    let Ok(matched) = router.at(path) else {
        return Ok(RouteMatch::NotFound);
    };
    let name = if method == http::Method::HEAD { "GET" } else { method.as_str() };
    let Some((_, target)) = matched.value.iter().find(|(method, _)| method.name() == name) else {
        return Ok(RouteMatch::OtherMethods(allow(matched.value)));
    };
    let parameters: Result<Vec<_>, Fault> =
        matched.params.iter().map(|(name, text)| Ok((name.to_owned(), percent_decode(text)?))).collect();
    Ok(RouteMatch::Target { target, address: RouteParameters { parameters: parameters?, space } })
}

fn allow(targets: &MethodTargets) -> String {
    let mut methods: Vec<&str> = targets.iter().map(|(method, _)| method.name()).collect();
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    methods.push("OPTIONS");
    methods.join(", ")
}
