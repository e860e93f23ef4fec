//! API keys: list, create, revoke.

use crate::api::answers::keys::{self as answers, CurrentKey, KeyCreated, KeyRevoked, NewKey};
use crate::api::answers::types::Timestamp;
use crate::api::body::RequestBody;
use crate::api::error::ApiError;
use crate::api::list_response::ListResponse;
use crate::api::pagination::{Page, Query};
use crate::api::path::PathParam;
use crate::api::{Api, response};
use crate::auth::{self, ApiKey, NAME_EXPECTED, Role};
use crate::auth::{Credential, Revocation};
use crate::domain::invalid::Invalid;
use crate::domain::tenant_id;
use crate::store::AddKeyOutcome;
use axum::extract::Request;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::Response;

/// `GET /admin/keys`: the metadata of all keys. The keys themselves are not stored.
pub(crate) async fn list(api: Api, uri: Uri) -> Result<Response, ApiError> {
    let page = Page::from_query(&Query::parse(&uri))?;
    api.inner.keys.reload().await?;
    let keys = api.inner.keys.keys();
    let items: Vec<answers::Key> =
        keys.iter().skip(page.offset).take(page.limit).map(|credential| describe(credential)).collect();
    Ok(ListResponse::from_values(&items, &[]).paged(page, keys.len()))
}

fn describe(credential: &Credential) -> answers::Key {
    let ApiKey { name, role, tenant, .. } = &credential.key;
    let source = if credential.created.is_some() { "api" } else { "config" };
    answers::Key {
        id: credential.key.id(),
        name: name.clone(),
        role: answers::Role(role.name()),
        tenant: tenant.clone(),
        source,
        created_at: credential.created.map(Timestamp),
    }
}

/// `GET /admin/keys/current`: the key of the request, so that a client knows its own role.
pub(crate) async fn current(api: Api) -> Response {
    let key = api.caller().map(|caller| &caller.key);
    let answer = CurrentKey {
        required: key.is_some(),
        id: key.map(ApiKey::id),
        name: key.map(|key| key.name.clone()),
        role: answers::Role(key.map_or(Role::Admin, |key| key.role).name()),
        tenant: key.and_then(|key| key.tenant.clone()),
    };
    response::json(StatusCode::OK, &answer)
}

/// `POST /admin/keys`: the response contains the key, which is not stored and cannot be read again.
pub(crate) async fn create(api: Api, request: Request) -> Result<Response, ApiError> {
    let body = RequestBody::read(&api, request).await?;
    let fields = body.fields()?;
    let required =
        |field: &'static str, expected: &str| fields.text(field)?.ok_or_else(|| Invalid::missing(field, expected));
    let name = required("name", NAME_EXPECTED)?;
    if !auth::is_name(&name) {
        return Err(Invalid::field("name", NAME_EXPECTED, &name).into());
    }
    let role = required("role", Role::EXPECTED)?;
    let role = Role::parse(&role).ok_or_else(|| Invalid::field("role", Role::EXPECTED, &role))?;
    let tenant = fields.text("tenant")?;
    if let Some(other) = tenant.as_deref().filter(|id| !tenant_id::is_id(id)) {
        return Err(Invalid::field("tenant", tenant_id::EXPECTED, other).into());
    }
    let (secret, key) = ApiKey::generate(&name, role, tenant).map_err(|error| {
        tracing::error!(%error, "cannot get random bytes from the operating system");
        ApiError::internal()
    })?;
    if let Some(error) = refusal(api.inner.keys.create(&key, &api.actor()).await?, &key) {
        return Err(error);
    }
    tracing::info!(
        key = key.id(),
        name = key.name,
        role = role.name(),
        tenant = key.tenant,
        by = api.actor(),
        "API key created"
    );
    let id = key.id();
    let api_key = NewKey { id, name: key.name, role: answers::Role(role.name()), tenant: key.tenant, key: secret };
    let mut response = response::json(StatusCode::CREATED, &KeyCreated { api_key });
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

fn refusal(kept: AddKeyOutcome, key: &ApiKey) -> Option<ApiError> {
    let name = &key.name;
    let (message, hint) = match kept {
        AddKeyOutcome::Added => return None,
        AddKeyOutcome::Full { most } => {
            (format!("The limit of {most} API keys is reached."), "Revoke a key that is not used any more.")
        }
        AddKeyOutcome::Differs => (
            format!("A key named {name} with another role or tenant exists."),
            "Choose another name. Two keys may share a name only to replace one by the other.",
        ),
        AddKeyOutcome::Many => {
            (format!("Two keys named {name} already exist."), "Revoke the older one when it is not used any more.")
        }
        AddKeyOutcome::NoAdmin => (
            "No key could manage keys: that takes a key with the role admin that is bound to no tenant.".to_owned(),
            "Create a key with the role admin first.",
        ),
    };
    Some(ApiError::new(StatusCode::CONFLICT, "conflict", message).with("name", name).hint(hint))
}

/// `DELETE /admin/keys/{id}`: the key is not valid any more, in any process.
pub(crate) async fn revoke(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    let conflict = |message: &str, hint: &str| {
        Err(ApiError::new(StatusCode::CONFLICT, "conflict", message).with("id", &id).hint(hint))
    };
    match api.inner.keys.revoke(&id, &api.actor()).await? {
        Revocation::Done => {
            tracing::info!(key = id, by = api.actor(), "API key revoked");
            Ok(response::json(StatusCode::OK, &KeyRevoked { id: &id, revoked: true }))
        }
        Revocation::NotFound => {
            Err(ApiError::not_found("API key", &id).hint("Send GET /ojs/v1/admin/keys for a list of the keys."))
        }
        Revocation::InConfig => conflict(
            "The key is in the configuration, so it would be valid again after the next start.",
            "Remove it from the configuration and restart the server.",
        ),
        Revocation::LastAdmin => conflict(
            "The key is the last one that can manage keys: it has the role admin and is bound to no tenant.",
            "Create another key with the role admin first.",
        ),
    }
}
