//! Webhook subscriptions and their deliveries.

use crate::api::answers::types::{Json, Timestamp};
use crate::api::answers::webhooks::{self as answers, DeliveryAnswer, DeliveryRetried, SubscriptionDeleted};
use crate::api::body::RequestBody;
use crate::api::error::ApiError;
use crate::api::list_response::ListResponse;
use crate::api::pagination::{Page, Query};
use crate::api::path::PathParam;
use crate::api::{Api, response};
use crate::domain::invalid::Invalid;
use crate::domain::job::id;
use crate::domain::json;
use crate::domain::subscription::Subscription;
use crate::store::{Delivery, DeliveryState, SaveSubscriptionOutcome};
use axum::extract::Request;
use axum::http::{StatusCode, Uri};
use axum::response::Response;

/// The number of attempts to change a subscription while other requests change it.
const ATTEMPTS: usize = 8;

/// `POST /webhooks/subscriptions`. Only this response contains the secret.
pub(crate) async fn create(api: Api, request: Request) -> Result<Response, ApiError> {
    let body = RequestBody::read(&api, request).await?;
    body.fields()?;
    let id = format!("sub_{}", id::generate());
    let new = Subscription::parse(body.as_str(), &id, api.store().clock().now_ms(), secret())?;
    check(&api, &new).await?;
    match api.store().subscribe(&new, None).await? {
        SaveSubscriptionOutcome::Done => Ok(with_secret(StatusCode::CREATED, &new)),
        SaveSubscriptionOutcome::Full | SaveSubscriptionOutcome::Stale => {
            let message = "The limit on the number of subscriptions is reached.";
            Err(ApiError::new(StatusCode::CONFLICT, "conflict", message)
                .hint("Delete a subscription that is not needed any more."))
        }
    }
}

/// `GET /webhooks/subscriptions`, oldest first.
pub(crate) async fn list(api: Api, uri: Uri) -> Result<Response, ApiError> {
    let page = Page::from_query(&Query::parse(&uri))?;
    let all = api.store().subscriptions().await?;
    let page_items: Vec<String> = all.iter().skip(page.offset).take(page.limit).map(Subscription::to_json).collect();
    Ok(ListResponse::new(&format!("[{}]", page_items.join(",")), &["subscriptions"]).paged(page, all.len()))
}

/// `GET /webhooks/subscriptions/{id}`.
pub(crate) async fn show(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    Ok(subscription_response(&find(&api, &id).await?))
}

/// `PATCH /webhooks/subscriptions/{id}`: changes the members that the body contains.
pub(crate) async fn update(api: Api, PathParam(id): PathParam, request: Request) -> Result<Response, ApiError> {
    let body = RequestBody::read(&api, request).await?;
    body.fields()?;
    for _ in 0..ATTEMPTS {
        let old = find(&api, &id).await?;
        let new = old.changed(body.as_str())?;
        check(&api, &new).await?;
        if api.store().subscribe(&new, Some(&old)).await? == SaveSubscriptionOutcome::Done {
            return Ok(subscription_response(&new));
        }
    }
    Err(busy(&id))
}

/// `POST /webhooks/subscriptions/{id}/rotate-secret`: the old secret signs deliveries as well for one more day.
pub(crate) async fn rotate_secret(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    for _ in 0..ATTEMPTS {
        let old = find(&api, &id).await?;
        let new = old.rotated(secret(), api.store().clock().now_ms());
        if api.store().subscribe(&new, Some(&old)).await? == SaveSubscriptionOutcome::Done {
            return Ok(with_secret(StatusCode::OK, &new));
        }
    }
    Err(busy(&id))
}

/// `DELETE /webhooks/subscriptions/{id}`: its pending deliveries are not sent any more.
pub(crate) async fn remove(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    for _ in 0..ATTEMPTS {
        let old = find(&api, &id).await?;
        if api.store().unsubscribe(&old).await? == SaveSubscriptionOutcome::Done {
            return Ok(response::json(StatusCode::OK, &SubscriptionDeleted { deleted: true, id: &id }));
        }
    }
    Err(busy(&id))
}

/// `GET /webhooks/deliveries`: pending deliveries, or with `status=dead` those whose retries are exhausted.
pub(crate) async fn list_deliveries(api: Api, uri: Uri) -> Result<Response, ApiError> {
    let query = Query::parse(&uri);
    let page = Page::from_query(&query)?;
    let state = match query.get("status").unwrap_or("pending") {
        "pending" => DeliveryState::Pending,
        "dead" => DeliveryState::Dead,
        other => return Err(Invalid::field("status", "`pending` or `dead`", other).into()),
    };
    let (ids, total) = api.store().delivery_ids(state, page.offset, page.limit).await?;
    let mut page_items = Vec::new();
    for id in &ids {
        page_items.extend(api.store().delivery(id).await?.map(describe));
    }
    Ok(ListResponse::new(&response::in_order(&page_items), &["deliveries"]).paged(page, total))
}

/// `GET /webhooks/deliveries/{id}`.
pub(crate) async fn show_delivery(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    let delivery = api.store().delivery(&id).await?.ok_or_else(|| ApiError::not_found("delivery", &id))?;
    Ok(response::json_in_order(StatusCode::OK, &DeliveryAnswer { delivery: describe(delivery) }))
}

/// `POST /webhooks/deliveries/{id}/retry`: makes a dead delivery pending again.
pub(crate) async fn retry_delivery(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    match api.store().redeliver(&id).await? {
        true => Ok(response::json(StatusCode::OK, &DeliveryRetried { id: &id, status: "pending" })),
        false => Err(ApiError::not_found("delivery", &id)),
    }
}

async fn check(api: &Api, subscription: &Subscription) -> Result<(), ApiError> {
    let expected = "an https:// URL of a public host";
    api.inner.sender.check(&subscription.url).await.map_err(|error| {
        let invalid =
            Invalid { problem: format!("must be {expected}: {error}"), ..Invalid::field("url", expected, "") };
        ApiError::from(Invalid { received: None, ..invalid })
    })
}

async fn find(api: &Api, id: &str) -> Result<Subscription, ApiError> {
    api.store().subscription(id).await?.ok_or_else(|| ApiError::not_found("subscription", id))
}

fn subscription_response(subscription: &Subscription) -> Response {
    response::raw_json(StatusCode::OK, format!("{{\"subscription\":{}}}", subscription.to_json()))
}

fn with_secret(status: StatusCode, subscription: &Subscription) -> Response {
    let mut object = subscription.to_json();
    object.pop();
    let secret = json::quoted(subscription.secret());
    response::raw_json(status, format!("{{\"subscription\":{object},\"secret\":{secret}}}}}"))
}

fn describe(delivery: Delivery) -> answers::Delivery {
    answers::Delivery {
        attempts: delivery.tries,
        created_at: Timestamp(delivery.created),
        event_type: delivery.kind,
        id: delivery.id,
        status: if delivery.dead { "dead" } else { "pending" },
        subscription_id: delivery.subscription,
        // Error and event are stored as JSON.
        last_error: Json::parse(delivery.error.as_deref()),
        event: answers::Event(Json::parse(Some(&delivery.body)).0),
    }
}

/// Generates a secret of 256 random bits.
fn secret() -> String {
    use sha2::Digest;
    let random: [String; 4] = std::array::from_fn(|_| uuid::Uuid::new_v4().to_string());
    format!("whsec_{:x}", sha2::Sha256::digest(random.concat()))
}

fn busy(id: &str) -> ApiError {
    let message = format!("Subscription {id} was changed by other requests at the same time.");
    ApiError::new(StatusCode::CONFLICT, "conflict", message).with("id", id).hint("Send the request again.")
}
