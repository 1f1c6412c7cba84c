//! The route table: the catalogue's routes, and the special pages.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;
use matchit::{InsertError, Router};
use svcfs_base::Fault;
use svcfs_knowledge::kernel::{API_PREFIX, HttpMethod, OperationArea, OperationEntry, OperationInputs, Route, Space};

use crate::app::AppState;
use crate::bind::{decoded, header};
use crate::specials::{RoutePrefix, SPECIAL_ROUTES, SpecialPage};

/// Where a request can lead.
#[derive(Debug)]
pub(crate) enum RouteTarget {
    /// To an operation.
    Operation(OperationRoute),
    /// To a special page.
    Special(SpecialPage),
}

/// An operation, as one of its routes leads to it.
#[derive(Debug)]
pub(crate) struct OperationRoute {
    /// Which.
    pub entry: &'static OperationEntry,
    /// By which of its routes.
    pub route: &'static Route,
    /// What it reads.
    pub inputs: OperationInputs,
}

/// Names the space that a request is for (contract 4.1).
pub(crate) const SPACE: &str = "X-Svc-Space";

/// What a request's path says beside where it leads.
#[derive(Debug, Clone)]
pub(crate) struct RouteParameters {
    /// Path parameters, decoded.
    pub parameters: Vec<(String, String)>,
    /// The space named in the path.
    space: Option<String>,
}

impl RouteParameters {
    /// The name of the space a request is for, when it says one; the header beats the path.
    ///
    /// # Errors
    /// `Invalid` for a header that is no text.
    pub(crate) fn named(&self, headers: &HeaderMap) -> Result<Option<String>, Fault> {
        Ok(header(headers, SPACE)?.or_else(|| self.space.clone()))
    }

    /// The space a request is for.
    ///
    /// # Errors
    /// `NotFound` when there is none of that name.
    pub(crate) fn space(&self, app: &AppState, headers: &HeaderMap) -> Result<Arc<Space>, Fault> {
        app.space(self.named(headers)?.as_deref())
    }
}

/// All targets of one path.
type MethodTargets = Vec<(HttpMethod, RouteTarget)>;

/// What a request's path and method lead to.
#[derive(Debug)]
pub(crate) enum RouteMatch<'t> {
    /// A target.
    Target {
        /// Which.
        target: &'t RouteTarget,
        /// What else the path says.
        address: RouteParameters,
    },
    /// The path exists, with other methods: an `Allow` list.
    OtherMethods(String),
    /// Nothing.
    Nothing,
}

/// Both tables: below the prefix, and at the root.
pub(crate) struct RouteTable {
    below_prefix: Router<MethodTargets>,
    at_root: Router<MethodTargets>,
}

impl RouteTable {
    /// The table of a catalogue.
    ///
    /// # Errors
    /// Two routes that cannot be told apart.
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
            let ways = paths.entry(special.path).or_default();
            ways.push((HttpMethod::Get, RouteTarget::Special(special.page)));
        }
        Ok(Self { below_prefix: router(below_prefix)?, at_root: router(at_root)? })
    }

    /// What a path (percent-encoded, as it came) and method lead to. Below the prefix an endpoint's name beats a space's.
    ///
    /// # Errors
    /// `Invalid` when the path is not UTF-8.
    pub(crate) fn find(&self, method: &http::Method, path: &str) -> Result<RouteMatch<'_>, Fault> {
        let Some(below) = path.strip_prefix(API_PREFIX).filter(|below| below.starts_with('/')) else {
            return find(&self.at_root, method, path, None);
        };
        match find(&self.below_prefix, method, below, None)? {
            RouteMatch::Nothing => {}
            found => return Ok(found),
        }
        match below[1..].split_once('/') {
            Some((space, _)) if !space.is_empty() => {
                find(&self.below_prefix, method, &below[1 + space.len()..], Some(decoded(space)?))
            }
            _ => Ok(RouteMatch::Nothing),
        }
    }
}

fn router(paths: BTreeMap<&'static str, MethodTargets>) -> Result<Router<MethodTargets>, InsertError> {
    let mut router = Router::new();
    for (path, ways) in paths {
        router.insert(path, ways)?;
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
        return Ok(RouteMatch::Nothing);
    };
    let name = if method == http::Method::HEAD { "GET" } else { method.as_str() };
    let Some((_, target)) = matched.value.iter().find(|(method, _)| method.name() == name) else {
        return Ok(RouteMatch::OtherMethods(allow(matched.value)));
    };
    let parameters: Result<Vec<_>, Fault> =
        matched.params.iter().map(|(name, text)| Ok((name.to_owned(), decoded(text)?))).collect();
    Ok(RouteMatch::Target { target, address: RouteParameters { parameters: parameters?, space } })
}

fn allow(ways: &MethodTargets) -> String {
    let mut methods: Vec<&str> = ways.iter().map(|(method, _)| method.name()).collect();
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    methods.push("OPTIONS");
    methods.join(", ")
}
