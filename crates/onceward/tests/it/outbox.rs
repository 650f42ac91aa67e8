//! The outbox as a service uses it: the example of a queue's consumer, and a process that dies between commit and dispatch.

#[path = "../../examples/queue_consumer.rs"]
mod queue_consumer;

use std::path::Path;

use queue_consumer::{Courier, Message, Service};

const MESSAGE: Message = Message { id: "message-1", customer: "ada", item: "printer" };

#[tokio::test(flavor = "multi_thread")]
async fn a_redelivered_message_makes_one_effect() {
    let folder = tempfile::tempdir().unwrap();
    let courier = Courier::new().unwrap();
    let service = Service::open(folder.path(), courier.clone()).await.unwrap();
    service.handle(&MESSAGE).await.unwrap();
    service.handle(&MESSAGE).await.unwrap();
    service.settled(&MESSAGE).await.unwrap();
    service.handle(&MESSAGE).await.unwrap();
    let next = Message { id: "message-2", ..MESSAGE };
    service.handle(&next).await.unwrap();
    service.settled(&next).await.unwrap();
    assert_eq!(courier.seen(), ["message-1", "message-2"]);
    assert_eq!(service.orders().unwrap(), 2);
    let other = Message { item: "desk", ..MESSAGE };
    assert!(service.handle(&other).await.is_err(), "one id is one intention");
}

mod process {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    /// What the killed process does; run by the test below in a process of its own, and nothing by itself.
    #[test]
    fn the_process_that_commits_and_is_killed() {
        let Ok(folder) = std::env::var("ONCEWARD_OUTBOX_FOLDER") else { return };
        // One thread, which does not come to dispatching before it is gone.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let service = Service::open(Path::new(&folder), Courier::new().unwrap()).await.unwrap();
            service.handle(&MESSAGE).await.unwrap();
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
        });
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_was_committed_by_a_process_that_was_killed_is_sent_by_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "outbox::process::the_process_that_commits_and_is_killed", "--nocapture"])
            .env("ONCEWARD_OUTBOX_FOLDER", folder.path())
            .output()
            .unwrap()
            .status;
        assert_eq!(status.signal(), Some(9), "{status}");
        let courier = Courier::new().unwrap();
        let service = Service::open(folder.path(), courier.clone()).await.unwrap();
        service.settled(&MESSAGE).await.unwrap();
        // Its message was not acknowledged: the queue delivers it again.
        service.handle(&MESSAGE).await.unwrap();
        assert_eq!((courier.seen(), service.orders().unwrap()), (vec!["message-1".to_owned()], 1));
    }
}
