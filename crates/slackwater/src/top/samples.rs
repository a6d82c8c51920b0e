//! The samples of `admin/live`, as tests need them: what a `serve` and a `demo` of twenty replicas say.

use super::message::{Fleet, History, Tick};
use super::model::Model;

macro_rules! sample {
    ($name:literal) => {
        serde_json::from_str(include_str!(concat!(
            "../admin/live/samples/",
            $name,
            ".json"
        )))
        .unwrap()
    };
}

pub(super) fn serve_fleet() -> Fleet {
    sample!("serve_fleet")
}

pub(super) fn serve_tick() -> Tick {
    sample!("serve_tick")
}

pub(super) fn demo_fleet() -> Fleet {
    sample!("demo_fleet")
}

pub(super) fn demo_tick() -> Tick {
    sample!("demo_tick")
}

pub(super) fn service_history() -> History {
    sample!("service_history")
}

pub(super) fn replica_history() -> History {
    sample!("replica_history")
}

/// A `serve` after its first tick.
pub(super) fn serve() -> Model {
    after_a_tick(serve_fleet(), serve_tick())
}

/// A `demo` after its first tick.
pub(super) fn demo() -> Model {
    after_a_tick(demo_fleet(), demo_tick())
}

fn after_a_tick(fleet: Fleet, tick: Tick) -> Model {
    let mut model = Model::default();
    model.take_fleet(fleet);
    model.take_tick(tick);
    model
}
