//! A large download and a large upload over each protocol: every byte arrives, and no process on
//! the way buffers them.
//!
//! Memory is the kernel's peak of the resident set (`VmHWM`), reset before each transfer, minus the
//! resident set at that time.

use super::asking::PROTOCOLS;
use super::judge;
use crate::loopback::processes::Process;
use crate::peers::options::Options;
use crate::peers::site::{Site, about};
use crate::report::Report;
use core::time::Duration;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Largest growth of `serve`, and of any agent, in KiB.
const GROWTH_MAX_KIB: u64 = 16 << 10;
const MIB: usize = 1 << 20;

pub(super) fn run(site: &Site<'_>, options: &Options, report: &mut Report) -> Result<(), String> {
    let source = site.www().join("big");
    write_source(&source, options.size_mib).map_err(about(&source))?;
    let limit = Duration::from_secs(60 + options.size_mib / 8);
    let mut carrier = Carrier {
        site,
        source: &source,
        bytes: options.size_mib * MIB as u64,
        sum: checksum(site, &source, limit)?,
        limit,
    };
    for (protocol, flag) in PROTOCOLS {
        let what = format!("download of {} MiB over {protocol}", options.size_mib);
        report.add("transfer", &what, carrier.download(flag));
        let what = format!("upload of {} MiB over {protocol}", options.size_mib);
        report.add("transfer", &what, carrier.upload(flag));
    }
    fs::remove_file(&source).map_err(about(&source))
}

/// No two blocks are equal, so a block that is lost, doubled or in the wrong place is noticed.
fn write_source(path: &Path, size_mib: u64) -> std::io::Result<()> {
    let mut block = vec![0_u8; MIB];
    let mut state = 1_u64;
    for chunk in block.chunks_exact_mut(8) {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        chunk.copy_from_slice(&state.to_le_bytes());
    }
    let mut file = BufWriter::new(File::create(path)?);
    for number in 0..size_mib {
        block[..8].copy_from_slice(&number.to_le_bytes());
        file.write_all(&block)?;
    }
    file.flush()
}

fn checksum(site: &Site<'_>, file: &Path, limit: Duration) -> Result<String, String> {
    let mut command = Command::new(&site.tools.sha256sum);
    let ended = site.processes.run("sha256sum", command.arg(file), limit)?;
    let sum = ended
        .out
        .split(' ')
        .next()
        .filter(|_| ended.status.success());
    sum.map(str::to_owned)
        .ok_or_else(|| format!("sha256sum: {}", ended.err.trim()))
}

struct Carrier<'s, 'a> {
    site: &'s Site<'a>,
    source: &'s Path,
    bytes: u64,
    sum: String,
    limit: Duration,
}

impl Carrier<'_, '_> {
    fn download(&mut self, flag: &str) -> Result<String, String> {
        let arrived = self.site.folder.join("arrived");
        let mut command = self.curl(flag);
        command
            .arg("--output")
            .arg(&arrived)
            .arg(self.site.url("/big"));
        self.carry(&mut command, "200", &arrived)
    }

    fn upload(&mut self, flag: &str) -> Result<String, String> {
        let arrived = self.site.www().join("upload/arrived");
        let mut command = self.curl(flag);
        command
            .arg("--upload-file")
            .arg(self.source)
            .arg(self.site.url("/upload/arrived"));
        self.carry(&mut command, "201", &arrived)
    }

    fn curl(&self, flag: &str) -> Command {
        let mut command = Command::new(&self.site.tools.curl);
        let limit = self.limit.as_secs().to_string();
        command.args([flag, "--silent", "--show-error", "--max-time", &limit]);
        command.args(["--write-out", "%{stderr}%{http_code}"]);
        command
    }

    /// Runs curl and checks what arrived, and the memory that it took.
    fn carry(&self, curl: &mut Command, code: &str, arrived: &Path) -> Result<String, String> {
        let peaks = self.processes().map(|(_, process)| Peak::reset(process));
        let peaks = peaks.collect::<Result<Vec<_>, _>>()?;
        let begun = Instant::now();
        let ended = self
            .site
            .processes
            .run("curl", curl, self.limit + Duration::from_secs(5))?;
        let took = begun.elapsed();
        let mut grown = Vec::with_capacity(peaks.len());
        for ((name, process), peak) in self.processes().zip(peaks) {
            grown.push((name, peak.grown_kib(process)?));
        }
        if !ended.status.success() || !ended.err.ends_with(code) {
            return Err(format!("curl: {}: {}", ended.status, ended.err.trim()));
        }
        let bytes = fs::metadata(arrived).map_err(about(arrived))?.len();
        let is_same = checksum(self.site, arrived, self.limit)? == self.sum;
        fs::remove_file(arrived).map_err(about(arrived))?;

        let serve_kib = most(&grown, "serve");
        let agent_kib = most(&grown, "agent");
        let passed = is_same
            && bytes == self.bytes
            && serve_kib <= GROWTH_MAX_KIB
            && agent_kib <= GROWTH_MAX_KIB;
        let rate = self.bytes as f64 / MIB as f64 / took.as_secs_f64();
        judge(
            passed,
            format!(
                "{bytes} bytes, SHA-256 {}, {rate:.0} MiB/s; peak memory grew by {serve_kib} KiB \
                 (serve), {agent_kib} KiB (agent)",
                if is_same { "equal" } else { "DIFFERENT" },
            ),
        )
    }

    fn processes(&self) -> impl Iterator<Item = (&'static str, &Process)> {
        let agents = self
            .site
            .pairs
            .iter()
            .filter_map(|pair| pair.agent_process.as_ref());
        let serve = self.site.serve.iter().map(|process| ("serve", process));
        serve.chain(agents.map(|process| ("agent", process)))
    }
}

fn most(grown: &[(&str, u64)], name: &str) -> u64 {
    let grown = grown
        .iter()
        .filter(|(of, _)| *of == name)
        .map(|(_, kib)| *kib);
    grown.max().unwrap_or_default()
}

/// A process's resident memory when its peak was reset.
struct Peak {
    resident_kib: u64,
}

impl Peak {
    fn reset(process: &Process) -> Result<Self, String> {
        let file = format!("/proc/{}/clear_refs", process.pid());
        // 5 resets the peak to the current resident set.
        fs::write(&file, "5").map_err(about(Path::new(&file)))?;
        Ok(Self {
            resident_kib: memory_kib(process, "VmRSS:")?,
        })
    }

    fn grown_kib(&self, process: &Process) -> Result<u64, String> {
        Ok(memory_kib(process, "VmHWM:")?.saturating_sub(self.resident_kib))
    }
}

fn memory_kib(process: &Process, field: &str) -> Result<u64, String> {
    let file = format!("/proc/{}/status", process.pid());
    let text = fs::read_to_string(&file).map_err(about(Path::new(&file)))?;
    let value = text.lines().find_map(|line| line.strip_prefix(field));
    let number = value.and_then(|value| value.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| format!("{file}: no {field}"))
}
