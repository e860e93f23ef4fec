//! A noisy neighbour whose jobs share a queue with other tenants.

use super::*;
use fairgate::domain::fairness::TenantFairness;

#[tokio::test]
async fn a_flood_gets_fewer_turns_until_it_is_released() {
    let sharing = TenantFairness { enabled: Some(true), ..TenantFairness::default() };
    let env = NeighborEnv::with(throttling(), |config| config.policy.tenant_fairness = sharing).await;
    env.flood().await;
    let equal = shares(&[("a", 4), ("b", 4), ("c", 4), ("d", 4), ("loud", 4)]);
    assert_eq!(env.work(20).await, equal);
    env.look_for(20).await;
    assert_eq!(env.kinds().await, ["tenant.throttled"]);
    assert_eq!(env.work(21).await, shares(&[("a", 5), ("b", 5), ("c", 5), ("d", 5), ("loud", 1)]));

    env.client.post("/v1/admin/tenants/loud/noise/reset", json!({})).await.expect(200);
    assert_eq!(env.kinds().await, ["tenant.throttled", "tenant.throttle_released"]);
    assert_eq!(env.work(20).await, equal);
    // It is exempt for the duration of a throttle and then considered noisy again.
    env.look_for(4 * 60).await;
    assert_eq!(env.kinds().await.len(), 2);
    env.look_for(80).await;
    assert_eq!(env.kinds().await.len(), 3);
}
