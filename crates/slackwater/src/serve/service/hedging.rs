//! Which requests of a service are late, and whether a second copy of one is sent: the core's hedger, on a worker's clock.
//!
//! What is expected of a request depends on what it asks for. A gRPC call's class is its method, any other request's is its
//! route. There is room for a bounded number of classes; those that come when it is full share the last one.

use super::counts::ServiceCounts;
use crate::config::HedgingSettings;
use crate::forward::{RequestBody, is_grpc_call};
use core::cell::RefCell;
use http::Request;
use slackwater_core::tail::{Hedger, Watch, WatchEnd};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::time::Instant;

/// The longest path that is a class of its own.
const METHOD_BYTES_MAX: usize = 256;

/// A worker's second copies of one service's requests.
#[derive(Debug)]
pub(super) struct Hedging {
    hedger: RefCell<Hedger>,
    classes: RefCell<Classes>,
    /// The hedger's time is counted from then.
    began: Instant,
    counts: Arc<ServiceCounts>,
}

impl Hedging {
    /// `None`: no request is sent twice.
    pub(super) fn new(settings: &HedgingSettings, counts: &Arc<ServiceCounts>) -> Option<Self> {
        let classes_max = settings.classes_max as usize;
        settings.enabled.then(|| Self {
            hedger: RefCell::new(Hedger::new(settings.rules.clone(), classes_max)),
            classes: RefCell::new(Classes::new(classes_max)),
            began: Instant::now(),
            counts: Arc::clone(counts),
        })
    }

    /// A request of that route is sent for the first time.
    pub(super) fn begin(&self, route: usize, request: &Request<RequestBody>) -> Watching<'_> {
        let class = self.classes.borrow_mut().of(route, request);
        let watch = self.hedger.borrow_mut().begin(self.now(), class);
        if watch.due_at().is_none() {
            self.counts.hedges_unknown.add_one();
        }
        Watching {
            hedging: self,
            watch: Some(watch),
        }
    }

    /// A second copy is on its way.
    pub(super) fn sent(&self) {
        self.counts.hedges.add_one();
    }

    fn now(&self) -> slackwater_core::Instant {
        slackwater_core::Instant::EPOCH + self.began.elapsed()
    }
}

/// A request's first copy that is out. Dropped, it has been given up.
#[derive(Debug)]
pub(super) struct Watching<'h> {
    hedging: &'h Hedging,
    watch: Option<Watch>,
}

impl<'h> Watching<'h> {
    pub(super) const fn hedging(&self) -> &'h Hedging {
        self.hedging
    }

    /// When to ask [`Self::is_to_be_copied`]; `None`: never.
    pub(super) fn due_at(&self) -> Option<Instant> {
        let due_at = self.watch.as_ref()?.due_at()?;
        let epoch = slackwater_core::Instant::EPOCH;
        Some(self.hedging.began + due_at.saturating_since(epoch))
    }

    /// Whether to send a second copy now; it is paid for.
    pub(super) fn is_to_be_copied(&mut self) -> bool {
        let Some(watch) = &mut self.watch else {
            return false;
        };
        let mut hedger = self.hedging.hedger.borrow_mut();
        let before = hedger.counters();
        let is_to_be = hedger.handle_due(self.hedging.now(), watch);
        let after = hedger.counters();
        let counts = &self.hedging.counts;
        if after.withheld_budget > before.withheld_budget {
            counts.hedges_over_budget.add_one();
        }
        if after.withheld_slow > before.withheld_slow {
            counts.hedges_while_slow.add_one();
        }
        is_to_be
    }

    /// There was nowhere to send it to.
    pub(super) fn unsent(&mut self) {
        if let Some(watch) = &mut self.watch {
            self.hedging.hedger.borrow_mut().handle_unsent(watch);
        }
    }

    pub(super) fn end(mut self, end: WatchEnd) {
        if end == WatchEnd::Superseded {
            self.hedging.counts.hedges_won.add_one();
        }
        self.finish(end);
    }

    fn finish(&mut self, end: WatchEnd) {
        if let Some(watch) = self.watch.take() {
            let now = self.hedging.now();
            self.hedging.hedger.borrow_mut().end(now, watch, end);
        }
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.finish(WatchEnd::Failed);
    }
}

/// Classes by what they are of, in the order in which they were first seen.
#[derive(Debug)]
struct Classes {
    methods: HashMap<Box<str>, usize>,
    routes: HashMap<usize, usize>,
    max: usize,
}

impl Classes {
    fn new(max: usize) -> Self {
        Self {
            methods: HashMap::new(),
            routes: HashMap::new(),
            max,
        }
    }

    fn of<B>(&mut self, route: usize, request: &Request<B>) -> usize {
        let next = self.methods.len() + self.routes.len();
        let last = self.max.saturating_sub(1);
        let path = request.uri().path();
        if is_grpc_call(request.headers()) && path.len() <= METHOD_BYTES_MAX {
            if let Some(&class) = self.methods.get(path) {
                return class;
            }
            if next < last {
                self.methods.insert(path.into(), next);
            }
        } else {
            if let Some(&class) = self.routes.get(&route) {
                return class;
            }
            if next < last {
                self.routes.insert(route, next);
            }
        }
        next.min(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderValue, header};

    fn request(path: &str, is_grpc: bool) -> Request<()> {
        let mut request = Request::new(());
        *request.uri_mut() = path.parse().expect("a path");
        if is_grpc {
            let grpc = HeaderValue::from_static("application/grpc");
            request.headers_mut().insert(header::CONTENT_TYPE, grpc);
        }
        request
    }

    #[test]
    fn a_route_is_a_class_whatever_the_path_and_a_grpc_method_is_one_wherever_it_goes() {
        let mut classes = Classes::new(10);
        assert_eq!(classes.of(3, &request("/a", false)), 0);
        assert_eq!(classes.of(3, &request("/b", false)), 0);
        assert_eq!(classes.of(4, &request("/a", false)), 1);
        assert_eq!(classes.of(3, &request("/shop.Cart/Get", true)), 2);
        assert_eq!(classes.of(4, &request("/shop.Cart/Get", true)), 2);
        assert_eq!(classes.of(3, &request("/shop.Cart/Put", true)), 3);
        assert_eq!(classes.of(3, &request("/shop.Cart/Get", false)), 0);
    }

    #[test]
    fn classes_are_bounded_and_the_late_share_the_last() {
        let mut classes = Classes::new(3);
        for number in 0..1000 {
            let path = format!("/shop.Cart/Get{number}");
            let class = classes.of(0, &request(&path, true));
            assert_eq!(class, number.min(2), "{path}");
        }
        assert_eq!(classes.methods.len(), 2);
        assert_eq!(classes.of(7, &request("/", false)), 2);
        assert_eq!(classes.of(0, &request("/shop.Cart/Get1", true)), 1);
        // Nor is a path of any length kept.
        let mut classes = Classes::new(10);
        let long = format!("/{}", "x".repeat(METHOD_BYTES_MAX));
        classes.of(0, &request(&long, true));
        assert!(classes.methods.is_empty());
        assert_eq!(Classes::new(1).of(5, &request("/", false)), 0);
    }

    #[test]
    fn without_the_key_there_are_no_second_copies() {
        let off = HedgingSettings::default();
        assert!(Hedging::new(&off, &Arc::default()).is_none());
        let on = HedgingSettings {
            enabled: true,
            ..off
        };
        assert!(Hedging::new(&on, &Arc::default()).is_some());
    }
}
