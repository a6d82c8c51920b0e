//! The shown configuration, read again: it means the same, with no other remarks.

use super::*;

/// Fixtures of every source of a fleet but the list.
pub(super) const FLEETS: [&str; 7] = [
    "fleet_by_dns",
    "fleet_by_srv",
    "fleet_by_file",
    "fleet_by_xds",
    "fleet_by_xds_cluster",
    "fleet_by_xds_bootstrap",
    "fleet_by_kubernetes",
];

#[test]
fn shown_configuration_equals_the_loaded_one() {
    let directory = std::env::temp_dir().join(format!("slackwater-show-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory for the test");
    let again = directory.join("again.toml");
    for name in [
        "minimal",
        "everything",
        "named_services",
        "routes",
        "admin_off",
        "passive_health_off",
        "sync_settings_with_async",
    ]
    .into_iter()
    .chain(FLEETS)
    {
        let file = fixture(&format!("good/{name}.toml"));
        let first = Config::load(Some(&file), &Overrides::default())
            .expect("valid")
            .config;
        std::fs::write(&again, first.to_toml()).expect("a file for the test");
        let second = Config::load(Some(&again), &Overrides::default())
            .expect("valid")
            .config;
        assert_eq!(first.to_toml(), second.to_toml(), "{name}");
        assert_eq!(first.listeners, second.listeners);
        assert_eq!(first.dns, second.dns);
        assert_eq!(first.xds, second.xds);
        assert_eq!(first.kubernetes, second.kubernetes);
        assert_eq!(first.upgrade_protocols, second.upgrade_protocols);
        assert_eq!(first.drain_delay, second.drain_delay);
        assert_eq!(first.routes.len(), second.routes.len());
        assert_eq!(first.timeouts, second.timeouts);
        assert_eq!(first.limits, second.limits);
        assert_eq!(first.forwarded, second.forwarded);
        assert_eq!(first.admin, second.admin);
        assert_eq!(first.tracing, second.tracing);
        assert_eq!(first.services.len(), second.services.len());
        for (first, second) in first.services.iter().zip(&second.services) {
            assert_eq!(first.name, second.name);
            assert_eq!(first.replicas.len(), second.replicas.len());
            assert_eq!(
                first.policy_settings.prequal,
                second.policy_settings.prequal
            );
            assert_eq!(first.replica, second.replica);
            assert_eq!(first.timeouts, second.timeouts);
            assert_eq!(first.passive_health, second.passive_health);
            assert_eq!(first.probe.key, second.probe.key);
        }
    }
    std::fs::remove_dir_all(&directory).expect("the test's own directory");
}

#[test]
fn a_shown_configuration_has_no_remarks_of_its_own() {
    let files = std::fs::read_dir(fixture("good")).expect("the fixtures");
    let files = files.map(|entry| entry.expect("a fixture").path());
    let is_toml = |file: &PathBuf| file.extension().is_some_and(|it| it == "toml");
    for file in files.filter(is_toml) {
        // The fields differ: a shown configuration has sections and tables for what may be written
        // in short. It also names the policy, so that remarks give other advice.
        let told = |loaded: &Loaded| -> BTreeSet<String> {
            let messages = loaded.remarks.iter().map(|it| &it.about.message);
            let whats = messages.filter_map(|it| it.split([',', ';']).next());
            whats.map(str::to_owned).collect()
        };
        let loaded = Config::load(Some(&file), &Overrides::default()).expect("valid");
        let shown = Source::new(file.clone(), loaded.config.to_toml());
        let again = Config::load_source(Some(&shown), &Overrides::default()).expect("valid");
        let (before, after) = (told(&loaded), told(&again));
        let new: Vec<_> = after.difference(&before).collect();
        assert!(new.is_empty(), "{}: {new:#?}", file.display());
    }
}
