//! The route table: the catalogue's routes, and the special pages.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;
use matchit::{InsertError, Router};
use svcfs_base::Fault;
use svcfs_knowledge::kernel::{HttpMethod, OperationArea, OperationEntry, OperationInputs, PREFIX, Route, Space};

use crate::app::App;
use crate::bind::{decoded, header};
use crate::specials::{Page, Place, SPECIAL};

/// Where a request can lead.
#[derive(Debug)]
pub(crate) enum Target {
    /// To an operation.
    Operation(Operation),
    /// To a special page.
    Special(Page),
}

/// An operation, as one of its routes leads to it.
#[derive(Debug)]
pub(crate) struct Operation {
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
pub(crate) struct Address {
    /// Path parameters, decoded.
    pub parameters: Vec<(String, String)>,
    /// The space named in the path.
    space: Option<String>,
}

impl Address {
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
    pub(crate) fn space(&self, app: &App, headers: &HeaderMap) -> Result<Arc<Space>, Fault> {
        app.space(self.named(headers)?.as_deref())
    }
}

/// All targets of one path.
type Ways = Vec<(HttpMethod, Target)>;

/// What a request's path and method lead to.
#[derive(Debug)]
pub(crate) enum Found<'t> {
    /// A target.
    Target {
        /// Which.
        target: &'t Target,
        /// What else the path says.
        address: Address,
    },
    /// The path exists, with other methods: an `Allow` list.
    OtherMethods(String),
    /// Nothing.
    Nothing,
}

/// Both tables: below the prefix, and at the root.
pub(crate) struct Table {
    below_prefix: Router<Ways>,
    at_root: Router<Ways>,
}

impl Table {
    /// The table of a catalogue.
    ///
    /// # Errors
    /// Two routes that cannot be told apart.
    pub(crate) fn new(catalogue: &'static [OperationArea]) -> Result<Self, InsertError> {
        let (mut below_prefix, mut at_root) = (BTreeMap::<_, Ways>::new(), BTreeMap::<_, Ways>::new());
        for entry in catalogue.iter().flat_map(|area| area.operations) {
            for route in entry.http {
                let target = Target::Operation(Operation { entry, route, inputs: OperationInputs::of(entry) });
                let paths = if route.is_at_root { &mut at_root } else { &mut below_prefix };
                paths.entry(route.path).or_default().push((route.method, target));
            }
        }
        for special in SPECIAL {
            let paths = match special.place {
                Place::Root => &mut at_root,
                Place::Space => &mut below_prefix,
                Place::Elsewhere => continue,
            };
            let ways = paths.entry(special.path).or_default();
            ways.push((HttpMethod::Get, Target::Special(special.page)));
        }
        Ok(Self { below_prefix: router(below_prefix)?, at_root: router(at_root)? })
    }

    /// What a path (percent-encoded, as it came) and method lead to. Below the prefix an endpoint's name beats a space's.
    ///
    /// # Errors
    /// `Invalid` when the path is not UTF-8.
    pub(crate) fn find(&self, method: &http::Method, path: &str) -> Result<Found<'_>, Fault> {
        let Some(below) = path.strip_prefix(PREFIX).filter(|below| below.starts_with('/')) else {
            return find(&self.at_root, method, path, None);
        };
        match find(&self.below_prefix, method, below, None)? {
            Found::Nothing => {}
            found => return Ok(found),
        }
        match below[1..].split_once('/') {
            Some((space, _)) if !space.is_empty() => {
                find(&self.below_prefix, method, &below[1 + space.len()..], Some(decoded(space)?))
            }
            _ => Ok(Found::Nothing),
        }
    }
}

fn router(paths: BTreeMap<&'static str, Ways>) -> Result<Router<Ways>, InsertError> {
    let mut router = Router::new();
    for (path, ways) in paths {
        router.insert(path, ways)?;
    }
    Ok(router)
}

fn find<'t>(
    router: &'t Router<Ways>,
    method: &http::Method,
    path: &str,
    space: Option<String>,
) -> Result<Found<'t>, Fault> {
    let Ok(matched) = router.at(path) else {
        return Ok(Found::Nothing);
    };
    let name = if method == http::Method::HEAD { "GET" } else { method.as_str() };
    let Some((_, target)) = matched.value.iter().find(|(method, _)| method.name() == name) else {
        return Ok(Found::OtherMethods(allow(matched.value)));
    };
    let parameters: Result<Vec<_>, Fault> =
        matched.params.iter().map(|(name, text)| Ok((name.to_owned(), decoded(text)?))).collect();
    Ok(Found::Target { target, address: Address { parameters: parameters?, space } })
}

fn allow(ways: &Ways) -> String {
    let mut methods: Vec<&str> = ways.iter().map(|(method, _)| method.name()).collect();
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    methods.push("OPTIONS");
    methods.join(", ")
}
