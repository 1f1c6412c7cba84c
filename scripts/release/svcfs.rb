# NOT BUILT HERE: no test installs this formula, because Homebrew cannot be reached where svcfs is tested.
#
# Homebrew on Linux; svcfs does not build on macOS (docs/platforms.md). Set `url` and `sha256` to those of a release:
# the source tarball is `git archive --prefix=svcfs-0.1.0/ -o svcfs-0.1.0.tar.gz v0.1.0`. Then:
#
#   brew install --build-from-source ./scripts/release/svcfs.rb
class Svcfs < Formula
  desc "Versioned filesystem for markdown, shared by people and AI agents"
  homepage "https://svcfs.example.org"
  url "https://svcfs.example.org/releases/svcfs-0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "pkgconf" => :build
  depends_on "rust" => :build
  depends_on "libfuse"
  depends_on :linux

  def install
    system "cargo", "install", *std_cargo_args(path: "src/daemon")
    generate_completions_from_executable(bin/"svcfs", "completions")
    system bin/"svcfs", "man", "--all", buildpath/"man"
    man1.install Dir["man/*.1"]
  end

  service do
    run [opt_bin/"svcfs", "serve", "--root", var/"svcfs"]
    keep_alive true
  end

  test do
    system bin/"svcfs", "init", "--root", testpath/"notes"
    assert_match "welcome", shell_output("#{bin}/svcfs call tree --root #{testpath}/notes")
  end
end
