//! The policies' sections, `[prequal]`, `[linear]` and so on, from the core's tables of their keys.
//! Configurations of `serve` and scenarios of `sim` have them.

pub(super) mod foreign_names;
mod place;

use crate::table;
use crate::table::rows::{Row, row};
use crate::toml_reader::{Definition, Reader};
use place::key_of;
use slackwater_core::policy::{Kind, PolicySettings, Section, SectionVisitor, Valid};

/// The policies' settings, and where each key was set to another value than its default.
#[derive(Debug)]
pub struct PolicySections {
    /// The settings that policies are built with.
    pub settings: PolicySettings,
    /// Every section, in order.
    pub(super) names: Vec<&'static str>,
    set_keys: Vec<SetKey>,
}

/// A key of a policy's section that is set to another value than its default.
#[derive(Debug)]
pub(super) struct SetKey {
    pub(super) section: &'static str,
    pub(super) key: &'static str,
    pub(super) definition: Definition,
}

impl PolicySections {
    /// Reads all sections. `prefix` is empty for the top of the file, or `services.NAME.`. Mistakes
    /// are recorded.
    pub fn read(reader: &mut Reader<'_>, prefix: &str) -> Self {
        let mut settings = PolicySettings::default();
        let mut reading = Reading {
            reader,
            prefix,
            names: Vec::new(),
            set_keys: Vec::new(),
        };
        settings.visit(&mut reading);
        let Reading {
            names, set_keys, ..
        } = reading;
        Self {
            settings,
            names,
            set_keys,
        }
    }

    /// The keys that are set to another value than their default.
    pub(super) fn set_keys(&self) -> &[SetKey] {
        &self.set_keys
    }

    /// Such keys of `section`.
    pub(super) fn set_keys_in<'s>(
        &'s self,
        section: &'static str,
    ) -> impl Iterator<Item = (&'static str, &'s Definition)> {
        let set_keys = self.set_keys.iter().filter(move |it| it.section == section);
        set_keys.map(|it| (it.key, &it.definition))
    }
}

/// Reads each section.
struct Reading<'r, 't> {
    reader: &'r mut Reader<'t>,
    prefix: &'r str,
    names: Vec<&'static str>,
    set_keys: Vec<SetKey>,
}

impl SectionVisitor for Reading<'_, '_> {
    fn visit<S: Section>(&mut self, settings: &mut Valid<S>) {
        self.names.push(S::NAME);
        let mut read = S::default();
        for key in S::FIELDS.iter().map(key_of) {
            let field = format!("{}{}.{}", self.prefix, S::NAME, key.name);
            key.place.read(self.reader, &field, &mut read);
            let is_other = key.place.show(&read) != key.place.show(&S::default());
            let definition = self.reader.definition(&field).filter(|_| is_other);
            self.set_keys.extend(definition.map(|definition| SetKey {
                section: S::NAME,
                key: key.name,
                definition,
            }));
        }
        match read.validate() {
            Ok(valid) => *settings = valid,
            // Each value is in its range, so the error is about values that contradict each other.
            Err(error) => {
                let field = format!("{}{}.{}", self.prefix, S::NAME, error.field);
                let expected = format!("expected {}", error.expected);
                self.reader.add_mistake_near(&field, expected);
            }
        }
    }
}

/// Writes every section in full.
pub(super) fn write_sections(to: &mut String, prefix: &str, settings: &PolicySettings) {
    settings.clone().visit(&mut Writing { to, prefix });
}

/// Writes each section.
struct Writing<'w> {
    to: &'w mut String,
    prefix: &'w str,
}

impl SectionVisitor for Writing<'_> {
    fn visit<S: Section>(&mut self, settings: &mut Valid<S>) {
        let keys = S::FIELDS.iter();
        let keys = keys.filter_map(|field| Some((field.name, key_of(field).place.show(settings)?)));
        table::write_keys(self.to, &format!("{}{}", self.prefix, S::NAME), keys);
    }
}

/// The rows of the keys of all sections.
pub(super) fn policy_rows() -> Vec<Row> {
    let mut rows = Rows(Vec::new());
    PolicySettings::default().visit(&mut rows);
    rows.0
}

/// Collects the rows of each section.
struct Rows(Vec<Row>);

impl SectionVisitor for Rows {
    fn visit<S: Section>(&mut self, _: &mut Valid<S>) {
        let keys = S::FIELDS.iter().map(key_of);
        let rows = keys.map(|key| row(format!("{}.{}", S::NAME, key.name), &key));
        self.0.extend(rows);
    }
}

/// The keys of all sections whose values are durations.
pub(super) fn duration_keys() -> Vec<String> {
    let mut durations = Durations(Vec::new());
    PolicySettings::default().visit(&mut durations);
    durations.0
}

/// Collects the durations of each section.
struct Durations(Vec<String>);

impl SectionVisitor for Durations {
    fn visit<S: Section>(&mut self, _: &mut Valid<S>) {
        let fields = S::FIELDS.iter();
        let fields = fields.filter(|field| matches!(field.kind, Kind::Duration(_)));
        let keys = fields.map(|field| format!("{}.{}", S::NAME, field.name));
        self.0.extend(keys);
    }
}
