//! Many at once, and two processes at one database.

use std::collections::HashSet;

use super::world::{World, on_both};

/// Captions until there is nothing left; the answers that were acknowledged.
async fn work(world: &World, who: &str) -> Vec<(String, String, String)> {
    let mut acknowledged = Vec::new();
    while let Ok(item) = world.next(who).await {
        let caption = format!("{who} saw {item} .");
        let key = format!("key-{who}-{}", acknowledged.len());
        let reply = world.submit(who, &key, &item, &caption).await;
        match reply.status.as_u16() {
            200 => acknowledged.push((who.to_owned(), item, caption)),
            // Two processes do not see each other's leases until they write.
            409 => {}
            _ => panic!("{}", reply.text()),
        }
    }
    acknowledged
}

#[test]
fn two_processes_share_one_database() {
    on_both(
        |_| {},
        async |world| {
            *world.run.batch.lock().unwrap() = Some(world.batch(2, 12));
            world.look().await;
            let other = world.again().await;
            let (ann, ben) = tokio::join!(work(&world, "ann"), work(&other, "ben"));
            let acknowledged: HashSet<_> = ann.into_iter().chain(ben).collect();
            let third = world.again().await;
            let export = third.export().await;
            assert_eq!(export.len(), 12);
            assert_eq!(export.into_iter().collect::<HashSet<_>>(), acknowledged);
        },
    );
}

#[test]
fn a_restart_knows_everything() {
    on_both(
        |settings| settings.annotators = 2,
        async |world| {
            let (ann, ben) = tokio::join!(work(&world, "ann"), work(&world, "ben"));
            assert_eq!((ann.len(), ben.len()), (5, 5));
            world.look().await;
            let again = world.again().await;
            assert_eq!(*again.app.clerk.state(), *world.app.clerk.state());
        },
    );
}

#[test]
fn one_process_sees_what_another_one_did() {
    on_both(
        |_| {},
        async |world| {
            let other = world.again().await;
            let item = world.next("ann").await.unwrap();
            world.submit("ann", "key-seen", &item, "A star .").await.ok();
            let known = async || {
                while other.app.clerk.state().seq < world.app.clerk.state().seq {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(std::time::Duration::from_secs(30), known()).await.unwrap();
            assert_eq!(other.export().await, world.export().await);
            assert_eq!(*other.app.clerk.state(), *world.app.clerk.state());
        },
    );
}
