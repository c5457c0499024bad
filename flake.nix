# nix run . -- run -- make test      nix build      nix develop
{
  description = "Run one command in a sandbox: granted paths, protected names, allowed hosts";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixpkgs-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
        "x86_64-darwin"
        "aarch64-darwin"
      ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
    in
    {
      packages = each (pkgs: {
        default = pkgs.rustPlatform.buildRustPackage {
          pname = "ccbox";
          version = "0.1.0";
          src = self;
          cargoLock.lockFile = ./Cargo.lock;
          # The tests make sandboxes, and a build is in one.
          doCheck = false;
          installPhase = ''
            runHook preInstall
            PREFIX=$out sh packaging/install "$(find target -path '*release/ccbox' -type f)"
            runHook postInstall
          '';
          meta = {
            description = "Run one command in a sandbox: granted paths, protected names, allowed hosts";
            license = with pkgs.lib.licenses; [
              mit
              asl20
            ];
            mainProgram = "ccbox";
            platforms = systems;
          };
        };
      });

      devShells = each (pkgs: {
        default = pkgs.mkShell {
          packages = with pkgs; [
            bubblewrap
            cargo
            clippy
            just
            rustc
            rustfmt
          ];
        };
      });
    };
}
