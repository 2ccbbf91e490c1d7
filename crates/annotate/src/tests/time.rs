//! Clocks that jump, and leases that are renewed again and again.

use serde_json::json;

use super::world::{MINUTE, on_both};

const DAY: i64 = 24 * 60 * MINUTE;

#[test]
fn a_clock_that_was_a_day_ahead_keeps_nobody_waiting() {
    on_both(
        |settings| settings.grace = Some(std::time::Duration::from_secs(60)),
        async |world| {
            world.jump(DAY);
            let taken = world.next("ann").await.unwrap();
            let lease = world.get("lead", "/api/lead/queue?state=held").await.ok();
            assert_eq!(lease["total"], 1);
            // Throttled while the clock was wrong.
            let mut allowed = 0;
            while world.get("ben", "/api/me").await.status == 200 {
                allowed += 1;
            }
            assert!(allowed > 100);
            world.jump(-DAY);
            world.pass(5000);
            assert_eq!(world.get("ben", "/api/me").await.status, 200);
            // The lease ends when it would have, here and in a process that starts now.
            world.pass(11 * MINUTE);
            assert_eq!(world.next("ben").await.unwrap(), taken);
            world.pass(20 * MINUTE);
            for number in 0..5 {
                world.jump(if number == 4 { DAY } else { 0 });
                world.caption("ann", "A star .").await;
            }
            world.jump(-DAY);
            world.pass(MINUTE - 1);
            world.look().await;
            assert!(world.run.taken.lock().unwrap().is_empty());
            world.pass(1);
            world.look().await;
            assert_eq!(world.run.taken.lock().unwrap().len(), 1);
        },
    );
}

#[test]
fn stored_times_in_the_future_count_as_now() {
    on_both(
        |_| {},
        async |world| {
            world.jump(DAY);
            let taken = world.next("ann").await.unwrap();
            world.jump(-DAY);
            let again = world.again().await;
            assert_ne!(again.next("ben").await.unwrap(), taken);
            again.post("ben", "/api/sign-out", json!({})).await;
            again.pass(11 * MINUTE);
            assert_eq!(again.next("ben").await.unwrap(), taken);
        },
    );
}

#[test]
fn lease_renewals_are_rarely_stored() {
    on_both(
        |_| {},
        async |world| {
            let item = world.next("ann").await.unwrap();
            let before = world.app.state().seq;
            for _ in 0..600 {
                // A second apart, for ten minutes.
                world.pass(1000);
                let until = world.post("ann", "/api/renew", json!({ "item": item })).await.ok();
                let now = world.app.now().wall;
                assert!(until["lease_until"].as_i64().unwrap() >= now + 10 * MINUTE);
            }
            let written = world.app.state().seq - before;
            assert!((1..=6).contains(&written), "{written} events");
        },
    );
}

#[test]
fn a_lease_that_ran_out_elsewhere_is_not_revived() {
    on_both(
        |_| {},
        async |world| {
            let other = world.again().await;
            // The other process is cut off meanwhile: neither learns of the other until it writes.
            let item = world.next("ann").await.unwrap();
            world.pass(11 * MINUTE);
            assert_eq!(world.next("ben").await.unwrap(), item);
            other.pass(11 * MINUTE);
            other.submit("ben", "key-rightful", &item, "A star .").await.ok();
        },
    );
}
