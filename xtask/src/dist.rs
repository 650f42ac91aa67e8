//! `cargo xtask dist`: the packages that people install without Rust.
//!
//! One binary, built against glibc 2.31, in a wheel, two npm packages, a Debian package and the context of a container image; each
//! is made from files under `packaging/` and `clients/`, so that this file only puts them together.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{clients, setup, shell};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The oldest glibc that the binary runs on: that of Debian 11 and Ubuntu 20.04.
const GLIBC_MINOR_MAX: u32 = 31;

/// Documents that a package of the system carries along.
const DOCUMENTS: [&str; 4] = ["configuration.md", "operating.md", "cli.md", "observe.md"];

/// What to make.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// A binary that is there, in place of one that is built; its glibc is then whatever it is.
    pub(crate) binary: Option<PathBuf>,
    /// Where everything goes.
    pub(crate) output: Option<PathBuf>,
}

impl Options {
    /// From the words after `dist`.
    ///
    /// # Errors
    /// A word that is none of these.
    pub(crate) fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().map(PathBuf::from).with_context(|| format!("{word} needs a path"));
            match *word {
                "--binary" => options.binary = Some(value()?),
                "--output" => options.output = Some(value()?),
                other => bail!("dist does not take `{other}`; it takes --binary PATH and --output PATH"),
            }
        }
        Ok(options)
    }
}

/// Makes all packages; says where they are.
///
/// # Errors
/// The command that failed, or a binary that needs a newer glibc than it may.
pub(crate) fn run(options: &Options) -> Result<PathBuf> {
    let builder = setup::python("wheel", &shell::root().join("packaging/wheel-requirements.txt"))?;
    // Every program is started in the root; a path from elsewhere would mean another place there.
    let output = options.output.clone().unwrap_or_else(|| shell::target_dir().join("packages"));
    let output = std::path::absolute(output)?;
    if output.exists() {
        fs::remove_dir_all(&output)?;
    }
    fs::create_dir_all(&output)?;
    let built = match &options.binary {
        Some(binary) => std::path::absolute(binary)?,
        None => build()?,
    };
    let binary = output.join("onceward");
    fs::copy(&built, &binary).with_context(|| format!("no binary at {}", built.display()))?;
    shell::run(Command::new("strip").arg("--strip-all").arg(&binary)).context("strip is part of binutils")?;
    let glibc = glibc_minor(&fs::read(&binary)?).context("the binary names no version of glibc")?;
    println!("the binary needs glibc 2.{glibc} or later");
    if options.binary.is_none() && glibc > GLIBC_MINOR_MAX {
        bail!("the binary needs glibc 2.{glibc}; it must run on 2.{GLIBC_MINOR_MAX}");
    }
    let version = version()?;
    wheels(&builder, &binary, glibc, &output)?;
    npm(&binary, &version, &output)?;
    debian(&binary, &version, glibc, &output)?;
    fs::copy(shell::root().join("packaging/Containerfile"), output.join("Containerfile"))?;
    sums(&output)?;
    println!("packages: {}", output.display());
    Ok(output)
}

fn build() -> Result<PathBuf> {
    let tools = setup::python("zig", &shell::root().join("packaging/zig-requirements.txt"))?;
    let target = format!("{TARGET}.2.{GLIBC_MINOR_MAX}");
    let arguments = ["zigbuild", "--locked", "--profile", "dist", "--package", "onceward-cli", "--target"];
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", tools.join("bin").display());
    shell::run(shell::cargo(arguments).arg(target).env("PATH", path))?;
    Ok(shell::target_dir().join(TARGET).join("dist/onceward"))
}

/// The newest `GLIBC_2.N` that the binary asks its loader for.
fn glibc_minor(binary: &[u8]) -> Option<u32> {
    const NAME: &[u8] = b"GLIBC_2.";
    let minor = |at: usize| {
        let digits: Vec<u8> = binary[at + NAME.len()..].iter().copied().take_while(u8::is_ascii_digit).collect();
        String::from_utf8(digits).ok()?.parse().ok()
    };
    binary.windows(NAME.len()).enumerate().filter(|(_, found)| *found == NAME).filter_map(|(at, _)| minor(at)).max()
}

/// The version of everything: the workspace's.
fn version() -> Result<String> {
    let manifest = fs::read_to_string(shell::root().join("Cargo.toml"))?;
    let line = manifest.lines().find(|line| line.starts_with("version = ")).context("Cargo.toml has no version")?;
    Ok(line.split('"').nth(1).context("the version is no text")?.to_owned())
}

/// The wheel with the binary, the one without, and the source.
fn wheels(builder: &Path, binary: &Path, glibc: u32, output: &Path) -> Result<()> {
    let client = shell::root().join("clients/python");
    let build = |arguments: &[&str]| {
        let mut command = Command::new(builder.join("bin/python"));
        command.args(["-m", "build", "--no-isolation"]).args(arguments).arg("--outdir").arg(output).arg(&client);
        command
    };
    shell::run(&mut build(&["--sdist", "--wheel"]))?;
    shell::run(
        build(&["--wheel"])
            .env("ONCEWARD_BINARY", binary)
            .env("ONCEWARD_PLATFORM", format!("manylinux_2_{glibc}_x86_64")),
    )
}

/// The client for Node with its launcher, and the package of the binary that it finds.
fn npm(binary: &Path, version: &str, output: &Path) -> Result<()> {
    let staged = output.join("npm");
    let platform = staged.join("linux-x64");
    fs::create_dir_all(platform.join("bin"))?;
    fs::copy(binary, platform.join("bin/onceward"))?;
    let root = shell::root();
    let manifest = fs::read_to_string(root.join("packaging/npm/package.json"))?.replace("0.0.0", version);
    fs::write(platform.join("package.json"), manifest)?;
    pack(&platform, output)?;

    let client = root.join("clients/typescript");
    clients::build_typescript()?;
    let package = staged.join("onceward");
    fs::create_dir_all(&package)?;
    for part in ["bin", "dist", "README.md"] {
        shell::run(Command::new("cp").arg("-r").arg(client.join(part)).arg(&package))?;
    }
    let manifest = fs::read_to_string(client.join("package.json"))?;
    fs::write(package.join("package.json"), published(&manifest, version)?)?;
    pack(&package, output)?;
    fs::remove_dir_all(staged)?;
    Ok(())
}

/// The client's manifest as it is published: with the package of the binary, which does not exist while one works on the client.
fn published(manifest: &str, version: &str) -> Result<String> {
    const FILES: &str = "\"files\": [";
    if !manifest.contains(FILES) || !manifest.contains(&format!("\"version\": \"{version}\"")) {
        bail!("clients/typescript/package.json has no list of files, or not the version {version}");
    }
    let added = format!(
        "\"bin\": {{ \"onceward\": \"bin/onceward.mjs\" }},\n  \"optionalDependencies\": {{ \"@onceward/linux-x64\": \"{version}\" }},\n  \
         {FILES}\"bin\", "
    );
    Ok(manifest.replacen(FILES, &added, 1).replace("\"prepack\": \"npm run build\",", ""))
}

fn pack(package: &Path, output: &Path) -> Result<()> {
    shell::run(Command::new("npm").args(["pack", "--silent", "--pack-destination"]).arg(output).arg(package))
}

/// The Debian package: binary, unit, a first configuration and what an operator reads.
fn debian(binary: &Path, version: &str, glibc: u32, output: &Path) -> Result<()> {
    let (root, staged) = (shell::root(), output.join("deb"));
    let packaging = root.join("packaging");
    let put = |from: &Path, to: &str, mode: u32| -> Result<()> {
        let to = staged.join(to);
        fs::create_dir_all(to.parent().context("a folder")?)?;
        fs::copy(from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        fs::set_permissions(&to, fs::Permissions::from_mode(mode))?;
        Ok(())
    };
    put(binary, "usr/bin/onceward", 0o755)?;
    put(&packaging.join("onceward.service"), "lib/systemd/system/onceward.service", 0o644)?;
    put(&packaging.join("onceward.toml"), "etc/onceward/onceward.toml", 0o644)?;
    for document in DOCUMENTS {
        put(&root.join("docs").join(document), &format!("usr/share/doc/onceward/{document}"), 0o644)?;
    }
    put(&root.join("LICENSE-MIT"), "usr/share/doc/onceward/copyright", 0o644)?;
    let control = fs::read_to_string(packaging.join("debian/control"))?;
    let control = control.replace("VERSION", version).replace("GLIBC", &format!("2.{glibc}"));
    fs::create_dir_all(staged.join("DEBIAN"))?;
    fs::write(staged.join("DEBIAN/control"), control)?;
    put(&packaging.join("debian/conffiles"), "DEBIAN/conffiles", 0o644)?;
    put(&packaging.join("debian/postinst"), "DEBIAN/postinst", 0o755)?;
    put(&packaging.join("debian/prerm"), "DEBIAN/prerm", 0o755)?;
    let file = output.join(format!("onceward_{version}_amd64.deb"));
    shell::run(Command::new("dpkg-deb").args(["--build", "--root-owner-group"]).arg(&staged).arg(file))?;
    fs::remove_dir_all(staged)?;
    Ok(())
}

fn sums(output: &Path) -> Result<()> {
    let text = shell::output(Command::new("sh").args(["-c", "cd \"$0\" && sha256sum -- *"]).arg(output))?;
    fs::write(output.join("SHA256SUMS"), text)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_glibc_that_is_asked_for_counts() {
        assert_eq!(glibc_minor(b"..GLIBC_2.2.5\0GLIBC_2.31\0GLIBC_2.17\0"), Some(31));
        assert_eq!(glibc_minor(b"static"), None);
    }

    #[test]
    fn the_clients_have_the_version_of_the_gateway() {
        let version = version().expect("a version");
        let read = |path: &str| fs::read_to_string(shell::root().join(path)).expect(path);
        assert!(read("clients/python/src/onceward/_version.py").contains(&format!("VERSION = \"{version}\"")));
        assert!(read("clients/typescript/src/wire.ts").contains(&format!("VERSION = \"{version}\"")));
        let published = published(&read("clients/typescript/package.json"), &version).expect("the same version");
        assert!(published.contains("@onceward/linux-x64") && published.contains("\"bin\", "));
    }
}
