use std::sync::Arc;
use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use svcfs_base::{Fault, Kind, Limit, Timestamp, TreePath, WebhookEvent, escape_unprintable};
use svcfs_config::{check_path_glob, choose_events};
use svcfs_store::{DeliveryAttempt, HookPosition, StoredHook};
use svcfs_work::Lane;

use super::Webhooks;
use super::hook::Hook;
use super::registry::{HookReport, MAX_QUEUED, MIN_ROOM};
use super::signature::new_secret;
use crate::kernel::{Operation, OperationArea, OperationContext, OperationEntry, Route, random_hex};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Webhooks",
    operations: &[
        OperationEntry::new::<RegisterWebhook>(),
        OperationEntry::new::<ListWebhooks>(),
        OperationEntry::new::<DeleteWebhook>(),
        OperationEntry::new::<ListDeliveries>(),
        OperationEntry::new::<TestWebhook>(),
    ],
};

/// A server that is notified of changes.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Webhook {
    /// Identifies it
    pub id: String,
    /// Address that receives the notifications
    pub url: String,
    /// The files whose events are sent
    pub path_glob: String,
    /// The events that are sent; absent for all
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// The secret with which notifications are signed. Only in the answer that creates it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// When it was created
    pub created_at: Timestamp,
    /// Whether notifications are sent
    pub enabled: bool,
    /// Why it was disabled; absent if it is enabled
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled_reason: Option<String>,
    /// Time of the first failed attempt since the last successful one; absent if there is none
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Timestamp>,
    /// Whether it is one of the settings
    pub is_static: bool,
    /// Number of notifications that wait
    pub queued: usize,
    /// Number of change sets that it has not read yet, because too many notifications wait
    pub behind: u64,
}

impl Webhook {
    fn of(HookReport { stored, queued }: HookReport, cx: &OperationContext<'_>) -> Self {
        let behind = cx.space.vfs.last_seq().0.saturating_sub(stored.position.seq.0);
        Self {
            id: stored.id,
            url: stored.url,
            path_glob: stored.path_glob,
            events: stored.events.iter().map(|event| event.name().to_owned()).collect(),
            secret: None,
            created_at: stored.created_at,
            enabled: stored.disabled.is_none(),
            failing_since: stored.failing_since,
            is_static: stored.is_static,
            queued,
            // Positions of changes that lead to no notification are stored later.
            behind: if queued <= MAX_QUEUED - MIN_ROOM || stored.disabled.is_some() { 0 } else { behind },
            disabled_reason: stored.disabled.map(|(_, reason)| reason),
        }
    }
}

/// The webhooks of the space.
///
/// # Errors
/// `Unavailable` when they are disabled.
fn enabled<'a>(cx: &'a OperationContext<'_>) -> Result<&'a Arc<Webhooks>, Fault> {
    let message = "webhooks are not enabled; set `webhooks.enabled = true` and restart the server";
    cx.space.webhooks.as_ref().ok_or_else(|| Fault::new(Kind::NotEnabled, message))
}

fn find(webhooks: &Webhooks, id: &str) -> Result<Arc<Hook>, Fault> {
    webhooks.find(id).ok_or_else(|| {
        let displayed = escape_unprintable(&id.chars().take(40).collect::<String>());
        Fault::new(Kind::NotFound, format!("webhook not found: {displayed}"))
    })
}

/// Notify a server of changes
///
/// Each event is sent as `POST` with a JSON body until the server answers with 2xx, at least once,
/// in order for each page, signed as in Standard Webhooks. The answer has `secret`, which is shown
/// only once. `http://` and private addresses must be in the setting `net.allow`. 503 when webhooks
/// are disabled.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({ "url": "https://hooks.example.org/kb", "path_glob": "docs/**" }))]
pub struct RegisterWebhook {
    /// Address that receives the notifications
    pub url: String,
    /// The files whose events are sent, such as `docs/**`; default: all
    #[serde(default)]
    pub path_glob: Option<String>,
    /// The events to send, by name (`file.created`) or type (`write`); default: all
    #[serde(default)]
    pub events: Vec<String>,
}

impl Operation for RegisterWebhook {
    const NAME: &'static str = "webhook_register";
    const HTTP: &'static [Route] = &[Route::post("/webhooks").created()];
    const ALIASES: &'static [(&'static str, &'static str)] = &[("event_types", "events")];
    // The address of the host is looked up.
    const LANE: Lane = Lane::Slow;
    type Output = Webhook;
    fn run(self, cx: &OperationContext<'_>) -> Result<Webhook, Fault> {
        let webhooks = enabled(cx)?;
        let path_glob = self.path_glob.unwrap_or_else(|| "**".to_owned());
        check_path_glob(&path_glob).map_err(|message| Fault::invalid("path_glob", message))?;
        let events = choose_events(&self.events).map_err(|message| Fault::invalid("events", message))?;
        webhooks.check_url(&self.url)?;
        let hook = StoredHook {
            id: random_hex::<8>()?,
            url: self.url,
            path_glob,
            events,
            secret: new_secret()?,
            is_static: false,
            created_at: cx.now(),
            position: HookPosition { seq: cx.space.vfs.last_seq(), part: 0 },
            failing_since: None,
            disabled: None,
        };
        webhooks.add(hook.clone())?;
        let secret = Some(hook.secret.clone());
        Ok(Webhook { secret, ..Webhook::of(HookReport { stored: hook, queued: 0 }, cx) })
    }
}

/// List webhooks, the oldest first
///
/// Those that were registered, and those of the settings; without their secrets. Needs write scope,
/// because addresses of receivers often contain credentials. Empty when webhooks are disabled.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListWebhooks {}

impl Operation for ListWebhooks {
    const NAME: &'static str = "webhooks_list";
    // Addresses of receivers often contain credentials.
    const NEEDS_WRITE_SCOPE: bool = true;
    const HTTP: &'static [Route] = &[Route::get("/webhooks")];
    type Output = Vec<Webhook>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Vec<Webhook>, Fault> {
        let reports = cx.space.webhooks.as_ref().map(|webhooks| webhooks.list()).unwrap_or_default();
        Ok(reports.into_iter().map(|report| Webhook::of(report, cx)).collect())
    }
}

/// Delete a webhook
///
/// Its waiting notifications are dropped. 409 for a webhook of the settings.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct DeleteWebhook {
    /// Id of the webhook
    pub id: String,
}

/// A deleted webhook.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeletedWebhook {
    /// Its id
    pub deleted: String,
}

impl Operation for DeleteWebhook {
    const NAME: &'static str = "webhook_delete";
    const HTTP: &'static [Route] = &[Route::delete("/webhooks/{id}").no_content()];
    type Output = DeletedWebhook;
    fn run(self, cx: &OperationContext<'_>) -> Result<DeletedWebhook, Fault> {
        let webhooks = enabled(cx)?;
        if find(webhooks, &self.id)?.stored.is_static {
            let message =
                "this webhook is one of the settings; remove it from `webhook_entries` and restart the server";
            return Err(Fault::new(Kind::Conflict, message));
        }
        webhooks.remove(&self.id)?;
        Ok(DeletedWebhook { deleted: self.id })
    }
}

/// List the latest attempts to deliver notifications, newest first
///
/// The last 200 of a webhook are remembered.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListDeliveries {
    /// Id of the webhook
    pub id: String,
    /// Maximum number of attempts
    #[serde(default)]
    pub limit: Limit<50, 200>,
}

/// An attempt to deliver a notification.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct WebhookDelivery {
    /// Id of the notification (`webhook-id`), the same in every attempt
    pub id: String,
    /// The event
    pub event: String,
    /// The file
    pub path: TreePath,
    /// Number of the attempt, from 1
    pub attempt: u32,
    /// When it began
    pub attempted_at: Timestamp,
    /// How long it took
    pub duration_ms: u64,
    /// `delivered`, `failed` (there will be another attempt) or `given_up`
    pub outcome: String,
    /// Status of the answer; absent without one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why it failed; absent if it did not
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When the next attempt is due; absent if there is none
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Timestamp>,
}

impl From<DeliveryAttempt> for WebhookDelivery {
    fn from(attempt: DeliveryAttempt) -> Self {
        let outcome = match (&attempt.error, attempt.next_at) {
            (None, _) => "delivered",
            (Some(_), Some(_)) => "failed",
            (Some(_), None) => "given_up",
        };
        Self {
            id: attempt.message,
            event: attempt.event.name().to_owned(),
            path: attempt.path,
            attempt: attempt.attempt,
            attempted_at: attempt.at,
            duration_ms: attempt.duration_ms,
            outcome: outcome.to_owned(),
            status: attempt.status,
            error: attempt.error,
            next_attempt_at: attempt.next_at,
        }
    }
}

impl Operation for ListDeliveries {
    const NAME: &'static str = "webhook_deliveries";
    // Addresses of receivers often contain credentials.
    const NEEDS_WRITE_SCOPE: bool = true;
    const HTTP: &'static [Route] = &[Route::get("/webhooks/{id}/deliveries")];
    type Output = Vec<WebhookDelivery>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Vec<WebhookDelivery>, Fault> {
        let not_found = |_| Fault::new(Kind::NotFound, "webhook not found: webhooks are not enabled");
        let webhooks = enabled(cx).map_err(not_found)?;
        find(webhooks, &self.id)?;
        let attempts = webhooks.attempts(&self.id, self.limit.get())?;
        Ok(attempts.into_iter().map(WebhookDelivery::from).collect())
    }
}

/// Send a test to a webhook
///
/// The notification has the event `test` and is sent immediately, once, whatever is waiting. If it
/// is delivered, a disabled webhook is enabled again, for the changes from now on.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TestWebhook {
    /// Id of the webhook
    pub id: String,
}

/// The result of a test.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WebhookTest {
    /// Id of the notification (`webhook-id`)
    pub id: String,
    /// Whether the receiver answered with 2xx
    pub delivered: bool,
    /// Status of the answer; absent without one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why it failed; absent if it did not
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How long it took
    pub duration_ms: u64,
    /// Whether the webhook is enabled now
    pub enabled: bool,
}

impl Operation for TestWebhook {
    const NAME: &'static str = "webhook_test";
    const HTTP: &'static [Route] = &[Route::post("/webhooks/{id}/test")];
    const LANE: Lane = Lane::Slow;
    type Output = WebhookTest;
    fn run(self, cx: &OperationContext<'_>) -> Result<WebhookTest, Fault> {
        let webhooks = enabled(cx)?;
        let hook = find(webhooks, &self.id)?;
        let (now, started) = (cx.now(), Instant::now());
        let (event, actor) = (WebhookEvent::Test, cx.caller.actor());
        let id = format!("msg_{}", random_hex::<16>()?);
        let body = json!({
            "type": event.type_name(),
            "event": event.name(),
            "path": "",
            "actor": actor,
            "timestamp": now,
            "space": cx.space.name,
        });
        let result = webhooks.send_test(&hook, (&id, &body.to_string()), now);
        let delivered = result.error.is_none();
        if delivered {
            webhooks.enable(&self.id, cx.space.vfs.last_seq())?;
        }
        Ok(WebhookTest {
            id,
            delivered,
            status: result.status,
            error: result.error,
            duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            enabled: delivered || hook.is_enabled(),
        })
    }
}
