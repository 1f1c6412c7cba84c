//! The contract, held against what is served.

mod hostile;
mod lists;
mod published;
mod sweep;
mod wire;

use svcfs_http::{RoutePrefix, SPECIAL_ROUTES};
use svcfs_knowledge::CATALOGUE;

use crate::space::client::PREFIX;

/// Every method and path that is served, paths as the OpenAPI document writes them.
pub fn served() -> Vec<(String, String)> {
    let operations = CATALOGUE.iter().flat_map(|area| area.operations).flat_map(|entry| entry.http);
    let routes = operations.map(|route| (route.method.name().to_owned(), route.full_path()));
    let specials = SPECIAL_ROUTES.iter().map(|special| {
        let path = special.path.replace("{*", "{");
        let path = match special.prefix {
            RoutePrefix::Space => format!("{PREFIX}{path}"),
            RoutePrefix::Root | RoutePrefix::Unrouted => path,
        };
        (special.method().name().to_owned(), path)
    });
    routes.chain(specials).collect()
}
