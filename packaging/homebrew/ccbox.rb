# In a clone: brew install --HEAD --formula packaging/homebrew/ccbox.rb. A tap adds `url` and `sha256` of its release.
class Ccbox < Formula
  desc "Run one command in a sandbox: granted paths, protected names, allowed hosts"
  version "0.1.0"
  license any_of: ["MIT", "Apache-2.0"]
  head Pathname(__dir__).parent.parent.to_s, using: :git

  depends_on "rust" => :build

  def install
    system "cargo", "build", "--release", "--locked"
    ENV["PREFIX"] = prefix
    system "packaging/install", "target/release/ccbox"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/ccbox --version")
    assert_match "denied", shell_output("#{bin}/ccbox check write .git/hooks/pre-commit", 1)
  end
end
