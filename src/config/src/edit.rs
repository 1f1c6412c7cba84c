//! Edits `.svc/config.toml` and preserves comments and order.

use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, value};

use crate::sections::auth::{ApiKey, SecretText};
use crate::{KeyDigest, SpaceVisibility};

/// A key to be added. Holds its digest, not the key itself.
#[derive(Debug)]
pub struct NewKey<'a> {
    /// SHA-256 of the key.
    pub digest: KeyDigest,
    /// The only space that it permits.
    pub space: Option<&'a str>,
    /// Its owner.
    pub actor: &'a str,
    /// Its scope.
    pub scope: svcfs_base::Scope,
    /// The folder to which it is restricted.
    pub prefix: Option<&'a str>,
    /// Whether the limits of agents apply to all its requests.
    pub limits: bool,
}

/// A key in the file.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct WrittenKey {
    /// The first 12 hexadecimal digits of its digest.
    pub id: String,
    /// The only space that it permits.
    pub space: Option<String>,
    /// Its owner.
    pub actor: Option<String>,
    /// Its scope.
    pub scope: svcfs_base::Scope,
    /// The folder to which it is restricted.
    pub prefix: Option<String>,
    /// Whether the limits of agents apply to all its requests.
    pub limits: bool,
}

/// Bytes of the digest that identify a key.
const ID_BYTES: usize = 6;

/// Why a file was not changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The file is not TOML.
    #[error("the configuration is not valid TOML: {0}")]
    NotToml(#[from] toml_edit::TomlError),
    /// A key has another type than the edit needs.
    #[error("`{0}` in the configuration has the wrong type; `svcfs check-config` shows the error")]
    Unexpected(&'static str),
    /// Another type of authentication is in use.
    #[error("`auth.type` is `{0}`, but keys need `perspace`; change `auth.type` first, which disables `{0}`")]
    AuthTypeConflict(String),
    /// The last key cannot be removed: no caller could authenticate any more.
    #[error("this is the last key; create another first, or disable authentication with `auth.type = \"none\"`")]
    LastKey,
}

/// The id of a key in lists.
#[must_use]
pub fn key_id(digest: &KeyDigest) -> String {
    digest.short_hex(ID_BYTES)
}

/// Returns the text with this `space.visibility`.
///
/// # Errors
/// `NotToml`, and `Unexpected` when `space` is not a table.
pub fn set_visibility(text: &str, visibility: SpaceVisibility) -> Result<String, EditError> {
    apply_edit(text, |document| {
        let space = document.entry("space").or_insert_with(|| Item::Table(Table::new()));
        space.as_table_mut().ok_or(EditError::Unexpected("space"))?["visibility"] = value(visibility.name());
        Ok(())
    })
}

/// Whether the text sets `auth.type`.
#[must_use]
pub fn has_auth_type(text: &str) -> bool {
    let document: Result<DocumentMut, _> = text.parse();
    document.is_ok_and(|document| document.get("auth").and_then(|auth| auth.get("type")).is_some())
}

/// Applies an edit. The comments at the end of the file stay above an added table.
fn apply_edit(text: &str, change: impl FnOnce(&mut DocumentMut) -> Result<(), EditError>) -> Result<String, EditError> {
    let mut document: DocumentMut = text.parse()?;
    let comments = document.trailing().as_str().unwrap_or_default().to_owned();
    let names: Vec<String> = document.iter().map(|(name, _)| name.to_owned()).collect();
    change(&mut document)?;
    let added = document.iter_mut().find(|(name, _)| !names.iter().any(|known| known == name.get()));
    if let Some(table) = added.and_then(|(_, item)| item.as_table_mut()).filter(|_| !comments.is_empty()) {
        table.decor_mut().set_prefix(format!("{comments}\n"));
        document.set_trailing("");
    }
    Ok(document.to_string())
}

/// Returns the text with one more key, and with `auth.type = "perspace"` if there was no
/// authentication.
///
/// # Errors
/// `AuthTypeConflict` when another type is in use; `NotToml`; `Unexpected`.
pub fn add_key(text: &str, key: &NewKey<'_>) -> Result<String, EditError> {
    apply_edit(text, |document| {
        let auth = document.entry("auth").or_insert_with(|| Item::Table(Table::new()));
        let auth = auth.as_table_mut().ok_or(EditError::Unexpected("auth"))?;
        match auth.get("type").and_then(Item::as_str) {
            None | Some("none") => auth["type"] = value("perspace"),
            Some("perspace") => {}
            Some(other) => return Err(EditError::AuthTypeConflict(other.to_owned())),
        }
        let keys = auth.entry("api_keys").or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        let keys = keys.as_array_of_tables_mut().ok_or(EditError::Unexpected("auth.api_keys"))?;
        keys.push(key_table(key));
        Ok(())
    })
}

fn key_table(key: &NewKey<'_>) -> Table {
    let mut table = Table::new();
    table["key"] = value(key.digest.encode());
    if let Some(space) = key.space {
        table["space"] = value(space);
    }
    table["actor"] = value(key.actor);
    table["scope"] = value(key.scope.name());
    if let Some(prefix) = key.prefix {
        table["prefix"] = value(prefix);
    }
    if key.limits {
        table["limits"] = value(true);
    }
    table
}

/// Lists the keys in the text, in file order.
///
/// # Errors
/// `NotToml`, and `Unexpected` for an invalid key.
pub fn list_keys(text: &str) -> Result<Vec<WrittenKey>, EditError> {
    let document: DocumentMut = text.parse()?;
    let keys = document.get("auth").and_then(|auth| auth.get("api_keys"));
    let Some(keys) = keys.and_then(Item::as_array_of_tables) else { return Ok(Vec::new()) };
    keys.iter().map(|key| parse_key(key).ok_or(EditError::Unexpected("auth.api_keys"))).collect()
}

fn parse_key(key: &Table) -> Option<WrittenKey> {
    let ApiKey { key: SecretText(text), space, actor, scope, prefix, limits } =
        toml::from_str(&key.to_string()).ok()?;
    let id = key_id(&KeyDigest::parse(&text).ok()?);
    Some(WrittenKey { id, space, actor, scope, prefix, limits })
}

/// Returns the text without the keys whose id begins with `id`, and the removed keys.
///
/// # Errors
/// `LastKey` when no key would remain: a running server would reject such settings and continue to
/// accept the removed key. `NotToml`, and `Unexpected` for an invalid key.
pub fn remove_keys(text: &str, id: &str) -> Result<(String, Vec<WrittenKey>), EditError> {
    let mut document: DocumentMut = text.parse()?;
    let keys = document.get_mut("auth").and_then(|auth| auth.get_mut("api_keys"));
    let Some(keys) = keys.and_then(Item::as_array_of_tables_mut) else { return Ok((text.to_owned(), Vec::new())) };
    let mut removed = Vec::new();
    for index in (0..keys.len()).rev() {
        let key = keys.get(index).and_then(parse_key).ok_or(EditError::Unexpected("auth.api_keys"))?;
        if key.id.starts_with(id) {
            keys.remove(index);
            removed.push(key);
        }
    }
    if keys.is_empty() && !removed.is_empty() {
        return Err(EditError::LastKey);
    }
    Ok((document.to_string(), removed))
}

#[cfg(test)]
mod tests {
    use svcfs_base::Scope;

    use super::*;
    use crate::{AuthSettings, CliOverrides, Config, Settings};

    fn new(key: &str) -> NewKey<'_> {
        NewKey {
            digest: KeyDigest::from_key(key),
            space: Some("team"),
            actor: "ann",
            scope: Scope::Write,
            prefix: Some("docs/"),
            limits: true,
        }
    }

    #[test]
    fn a_key_is_added_and_the_rest_of_the_file_stays_as_it_was() {
        let before = "# ours\n[server]\nport = 4000 # not 3333\n";
        let after = add_key(before, &new("first")).unwrap();
        assert!(after.starts_with(before), "{after}");
        let after = add_key(&after, &new("second")).unwrap();
        assert!(!after.contains("first") && !after.contains("second"), "no key stands there in clear: {after}");
        let settings = Settings::resolve(Config::parse(&after, &|_| None), CliOverrides::default()).unwrap();
        let AuthSettings::PerSpace(keys) = settings.auth else { panic!("{:?}", settings.auth) };
        assert_eq!(
            keys.iter().map(|key| key.digest).collect::<Vec<_>>(),
            [KeyDigest::from_key("first"), KeyDigest::from_key("second")]
        );
        assert!(keys[0].is_limited);
        assert_eq!(keys[0].permissions.folder.as_ref().map(ToString::to_string).as_deref(), Some("docs"));
    }

    #[test]
    fn a_new_key_is_added_after_the_comments_at_the_end() {
        let before = crate::templates::CONFIG.content;
        let after = add_key(before, &new("first")).unwrap();
        assert!(after.starts_with(before), "{after}");
        assert_eq!(list_keys(&after).unwrap().len(), 1);
    }

    #[test]
    fn keys_are_listed_by_ids_and_revoked_by_them() {
        let text = add_key(&add_key("", &new("first")).unwrap(), &new("second")).unwrap();
        let listed = list_keys(&text).unwrap();
        assert_eq!(listed.len(), 2);
        assert_eq!(listed[0].id, key_id(&KeyDigest::from_key("first")));
        let (text, removed) = remove_keys(&text, &listed[0].id).unwrap();
        assert_eq!((removed.len(), list_keys(&text).unwrap()), (1, vec![listed[1].clone()]));
        assert_eq!(remove_keys(&text, "ffffffffffff").unwrap().1, []);
    }

    #[test]
    fn the_last_key_is_not_revoked_beside_a_running_server() {
        let text = add_key("", &new("only")).unwrap();
        let refused = remove_keys(&text, "").unwrap_err();
        assert!(refused.to_string().contains("last key"), "{refused}");
    }

    #[test]
    fn a_file_with_another_authentication_method_is_not_changed() {
        let refused = add_key("[auth]\ntype = \"apikey\"\n", &new("x")).unwrap_err();
        assert!(refused.to_string().contains("apikey"), "{refused}");
    }
}
