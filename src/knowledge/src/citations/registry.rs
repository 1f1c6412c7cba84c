//! Requests to the registries: doi.org and arXiv, or what the settings name instead.

use std::time::Duration;

use svcfs_net::{AddressPolicy, NetError, OutgoingClient, OutgoingLimits};

use super::identifiers::{PaperId, encoded};
use super::metadata::PaperMetadata;
use crate::kernel::OperationContext;

const LIMITS: OutgoingLimits = OutgoingLimits {
    timeout: Duration::from_secs(10),
    max_bytes: 1 << 20,
    max_redirects: 5,
    requires_tls: false,
    max_idle_connections: 0,
};

/// The format that all agencies of DOIs can answer in.
const CSL_JSON: &str = "application/vnd.citationstyles.csl+json";

/// What a registry answered.
pub enum LookupResult {
    /// The paper.
    Known(PaperMetadata),
    /// It has no such paper.
    Unknown(String),
    /// It did not answer, or not in a form that can be read.
    Unreachable(String),
}

/// Asks the registry of an identifier.
pub fn look_up(cx: &OperationContext<'_>, id: &PaperId) -> LookupResult {
    let memory = &cx.settings().memory;
    let (setting, base, format) = match id {
        PaperId::Doi(_) => ("memory.doi_url", &memory.doi_url, CSL_JSON),
        PaperId::Arxiv(_) => ("memory.arxiv_url", &memory.arxiv_url, "application/atom+xml"),
    };
    let Some(base) = base else {
        return LookupResult::Unreachable(format!("the metadata is missing: `{setting}` is empty"));
    };
    let url = match id {
        PaperId::Doi(doi) => format!("{base}/{}", encoded(doi)),
        PaperId::Arxiv(id) => format!("{base}?id_list={id}&max_results=1"),
    };
    let net = &cx.settings().net;
    let client = OutgoingClient::new(AddressPolicy::new(&net.hosts, &net.networks), LIMITS);
    let unknown = || LookupResult::Unknown(format!("the registry does not know `{}`", id.value()));
    match client.get_as(&url, format) {
        Ok(document) => {
            let metadata = match id {
                PaperId::Doi(_) => {
                    serde_json::from_slice(&document.body).ok().and_then(|csl| PaperMetadata::from_csl(&csl))
                }
                PaperId::Arxiv(_) => PaperMetadata::from_atom(&document.body),
            };
            match (metadata, id) {
                (Some(metadata), _) => LookupResult::Known(metadata),
                (None, PaperId::Arxiv(_)) if PaperMetadata::is_feed(&document.body) => unknown(),
                (None, _) => LookupResult::Unreachable(
                    "the metadata is missing: the registry did not answer in the expected format".to_owned(),
                ),
            }
        }
        Err(error) if is_unknown(&error) => unknown(),
        Err(error) => LookupResult::Unreachable(format!("the metadata is missing: {error}")),
    }
}

/// Whether a registry answered that it has no such paper.
fn is_unknown(error: &NetError) -> bool {
    matches!(error.status(), Some(400 | 404 | 410))
}
