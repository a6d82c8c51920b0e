//! Decides which requests of a service are late, and whether a second copy is sent: the core's
//! hedger on a worker's clock.
//!
//! The expected latency of a request depends on its class. The class of a gRPC call is its method,
//! once a replica has answered one, because clients can call methods that do not exist. The class
//! of any other request is its route. The number of classes is limited; when it is reached, further
//! ones share the last class.

use crate::forward::{RequestBody, is_grpc_call};
use crate::service::admission::ServiceCounts;
use core::cell::RefCell;
use slackwater_config::HedgingSettings;
use slackwater_core::tail::{Hedger, Watch, WatchEnd};
use slackwater_http::{Fields, Request};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use tokio::time::Instant;

/// Maximum length of a path that is a class of its own.
const METHOD_BYTES_MAX: usize = 256;

/// A worker's second copies of one service's requests.
#[derive(Debug)]
pub(crate) struct Hedging {
    settings: HedgingSettings,
    /// Requests in flight end in the hedger that they began in.
    hedger: RefCell<Rc<RefCell<Hedger>>>,
    classes: RefCell<Classes>,
    /// Zero of the hedger's clock.
    began: Instant,
    counts: Arc<ServiceCounts>,
}

impl Hedging {
    /// `None` if hedging is disabled.
    pub(crate) fn new(settings: &HedgingSettings, counts: &Arc<ServiceCounts>) -> Option<Self> {
        let classes_max = settings.classes_max as usize;
        settings.enabled.then(|| Self {
            hedger: RefCell::new(new_hedger(settings)),
            classes: RefCell::new(Classes::new(classes_max)),
            began: Instant::now(),
            counts: Arc::clone(counts),
            settings: settings.clone(),
        })
    }

    /// Starts watching a request of that route, whose first copy is sent.
    pub(crate) fn begin(&self, route: usize, request: &Request<RequestBody>) -> HedgeWatch<'_> {
        let class = self.classes.borrow_mut().of(route, request);
        let hedger = Rc::clone(&self.hedger.borrow());
        let (watch, new_method) = match class {
            Class::Number(class) => {
                let watch = hedger.borrow_mut().begin(self.now(), class);
                self.publish_saved();
                (Some(watch), None)
            }
            Class::New(method) => (None, Some(method)),
        };
        if watch.as_ref().is_none_or(|watch| watch.due_at().is_none()) {
            self.counts.hedges_unknown.add_one();
        }
        HedgeWatch {
            hedging: self,
            hedger,
            watch,
            new_method,
        }
    }

    /// Forgets everything learned, because the routes and their indices changed.
    pub(super) fn begin_anew(&self) {
        let classes_max = self.settings.classes_max as usize;
        self.classes.replace(Classes::new(classes_max));
        self.hedger.replace(new_hedger(&self.settings));
        self.publish_saved();
    }

    /// Counts a second copy that was sent.
    pub(crate) fn sent(&self) {
        self.counts.hedges.add_one();
    }

    fn publish_saved(&self) {
        let saved = self.hedger.borrow().borrow().saved_millionths();
        self.counts.hedges_saved.set(saved);
    }

    fn now(&self) -> slackwater_core::Instant {
        slackwater_core::Instant::EPOCH + self.began.elapsed()
    }
}

fn new_hedger(settings: &HedgingSettings) -> Rc<RefCell<Hedger>> {
    let hedger = Hedger::new(settings.rules.clone(), settings.classes_max as usize);
    Rc::new(RefCell::new(hedger))
}

/// Watches the first copy of a request in flight. If it is dropped, the request was given up.
#[derive(Debug)]
pub(crate) struct HedgeWatch<'h> {
    hedging: &'h Hedging,
    hedger: Rc<RefCell<Hedger>>,
    /// `None` if it has no class yet.
    watch: Option<Watch>,
    /// The gRPC method that becomes a class once it is answered.
    new_method: Option<Box<str>>,
}

impl<'h> HedgeWatch<'h> {
    pub(super) const fn hedging(&self) -> &'h Hedging {
        self.hedging
    }

    /// When to call [`Self::is_to_be_copied`]; `None` for never.
    pub(super) fn due_at(&self) -> Option<Instant> {
        let due_at = self.watch.as_ref()?.due_at()?;
        let epoch = slackwater_core::Instant::EPOCH;
        Some(self.hedging.began + due_at.saturating_since(epoch))
    }

    /// Whether to send a second copy now. If so, the budget has paid for it.
    pub(super) fn is_to_be_copied(&mut self) -> bool {
        let Some(watch) = &mut self.watch else {
            return false;
        };
        let mut hedger = self.hedger.borrow_mut();
        let before = hedger.counters();
        let is_to_be = hedger.handle_due(self.hedging.now(), watch);
        let after = hedger.counters();
        drop(hedger);
        self.hedging.publish_saved();
        let counts = &self.hedging.counts;
        if after.withheld_budget > before.withheld_budget {
            counts.hedges_over_budget.add_one();
        }
        if after.withheld_slow > before.withheld_slow {
            counts.hedges_while_slow.add_one();
        }
        is_to_be
    }

    /// Refunds a second copy for which there was no replica.
    pub(crate) fn unsent(&mut self) {
        if let Some(watch) = &mut self.watch {
            self.hedger.borrow_mut().handle_unsent(watch);
            self.hedging.publish_saved();
        }
    }

    /// Records that the request was answered, with these header fields.
    pub(crate) fn answered(mut self, headers: &Fields) {
        if let Some(method) = self.new_method.take().filter(|_| is_grpc_call(headers)) {
            self.hedging.classes.borrow_mut().add_method(method);
        }
        self.end(WatchEnd::Answered);
    }

    pub(crate) fn end(mut self, end: WatchEnd) {
        self.finish(end);
    }

    fn finish(&mut self, end: WatchEnd) {
        if let Some(watch) = self.watch.take() {
            let now = self.hedging.now();
            self.hedger.borrow_mut().end(now, watch, end);
        }
    }
}

impl Drop for HedgeWatch<'_> {
    fn drop(&mut self) {
        self.finish(WatchEnd::Failed);
    }
}

/// Classes by method and by route, numbered in the order in which they were first seen.
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

    fn of<B>(&mut self, route: usize, request: &Request<B>) -> Class {
        let path = request.uri().path();
        let has_free_permit = self.next() < self.last();
        if is_grpc_call(request.headers()) {
            return match self.methods.get(path) {
                Some(&class) => Class::Number(class),
                None if has_free_permit && path.len() <= METHOD_BYTES_MAX => {
                    Class::New(path.into())
                }
                None => Class::Number(self.last()),
            };
        }
        if let Some(&class) = self.routes.get(&route) {
            return Class::Number(class);
        }
        let class = self.next().min(self.last());
        if has_free_permit {
            self.routes.insert(route, class);
        }
        Class::Number(class)
    }

    fn add_method(&mut self, method: Box<str>) {
        let class = self.next();
        if class < self.last() {
            self.methods.entry(method).or_insert(class);
        }
    }

    fn next(&self) -> usize {
        self.methods.len() + self.routes.len()
    }

    fn last(&self) -> usize {
        self.max.saturating_sub(1)
    }
}

/// The class of a request.
#[derive(Debug, PartialEq)]
enum Class {
    Number(usize),
    /// A method that no replica has answered yet.
    New(Box<str>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderValue, header};
    use slackwater_core::policy::Settings;
    use slackwater_core::tail::HedgeSettings;

    fn request(path: &str, is_grpc: bool) -> Request<()> {
        let mut request = Request::new(());
        *request.uri_mut() = path.parse().expect("a path");
        if is_grpc {
            let grpc = HeaderValue::from_static("application/grpc");
            request.headers_mut().insert(header::CONTENT_TYPE, grpc);
        }
        request
    }

    fn class(classes: &mut Classes, route: usize, path: &str, is_grpc: bool) -> Class {
        classes.of(route, &request(path, is_grpc))
    }

    /// Returns the class of a method once it was answered.
    fn answered(classes: &mut Classes, path: &str) -> Class {
        match class(classes, 0, path, true) {
            Class::New(method) => {
                assert_eq!(&*method, path);
                classes.add_method(method);
                class(classes, 0, path, true)
            }
            known @ Class::Number(_) => known,
        }
    }

    #[test]
    fn routes_and_grpc_methods_are_classes() {
        let mut classes = Classes::new(10);
        assert_eq!(class(&mut classes, 3, "/a", false), Class::Number(0));
        assert_eq!(class(&mut classes, 3, "/b", false), Class::Number(0));
        assert_eq!(class(&mut classes, 4, "/a", false), Class::Number(1));
        assert_eq!(answered(&mut classes, "/shop.Cart/Get"), Class::Number(2));
        assert_eq!(
            class(&mut classes, 4, "/shop.Cart/Get", true),
            Class::Number(2)
        );
        assert_eq!(answered(&mut classes, "/shop.Cart/Put"), Class::Number(3));
        assert_eq!(
            class(&mut classes, 3, "/shop.Cart/Get", false),
            Class::Number(0)
        );
    }

    #[test]
    fn number_of_classes_is_bounded_and_later_ones_share_the_last() {
        let mut classes = Classes::new(3);
        for number in 0..1000 {
            let path = format!("/shop.Cart/Get{number}");
            let class = Class::Number(number.min(2));
            assert_eq!(answered(&mut classes, &path), class, "{path}");
        }
        assert_eq!(classes.methods.len(), 2);
        assert_eq!(class(&mut classes, 7, "/", false), Class::Number(2));
        assert_eq!(
            class(&mut classes, 0, "/shop.Cart/Get1", true),
            Class::Number(1)
        );
        // Paths that are too long are not stored.
        let mut classes = Classes::new(10);
        let long = format!("/{}", "x".repeat(METHOD_BYTES_MAX));
        assert_eq!(answered(&mut classes, &long), Class::Number(9));
        assert!(classes.methods.is_empty());
        assert_eq!(class(&mut Classes::new(1), 5, "/", false), Class::Number(0));
    }

    #[test]
    fn a_method_without_an_answer_is_not_a_class() {
        let mut classes = Classes::new(10);
        for number in 0..1000 {
            let path = format!("/made.Up/Method{number}");
            let class = class(&mut classes, 0, &path, true);
            assert_eq!(class, Class::New(path.into()));
        }
        assert_eq!(answered(&mut classes, "/shop.Cart/Get"), Class::Number(0));
        // Two calls of a method may be answered before it is known.
        classes.add_method("/shop.Cart/Get".into());
        assert_eq!(answered(&mut classes, "/shop.Cart/Put"), Class::Number(1));
    }

    /// Class 0 is another route after a change of the routes.
    #[test]
    fn requests_of_before_a_change_of_routes_end_as_they_began() {
        let mut rules = HedgeSettings::default();
        rules.samples_min = 1;
        let settings = HedgingSettings {
            enabled: true,
            rules: rules.validate().expect("in range"),
            ..HedgingSettings::default()
        };
        let hedging = Hedging::new(&settings, &Arc::default()).expect("enabled");
        let begin = || hedging.begin(0, &Request::new(RequestBody::default()));
        let is_known = || begin().due_at().is_some();
        begin().answered(&Fields::new());
        assert!(is_known());
        let slow = begin();
        hedging.begin_anew();
        slow.answered(&Fields::new());
        assert!(!is_known(), "the new class has no answer yet");
    }

    #[test]
    fn hedging_is_off_by_default() {
        let off = HedgingSettings::default();
        assert!(Hedging::new(&off, &Arc::default()).is_none());
        let on = HedgingSettings {
            enabled: true,
            ..off
        };
        assert!(Hedging::new(&on, &Arc::default()).is_some());
    }
}
