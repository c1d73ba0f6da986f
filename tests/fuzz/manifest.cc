// MANIFEST.json behind its own hash, which an attacker can make as well as we.
#include "io/manifest.h"

#include "base/hash.h"
#include "fuzz/fuzz.h"

HONE_FUZZ(manifest) {
  using namespace hone;
  const std::string text = std::string(input) + ",\n \"manifest_hash\": \"" + hex64(hash64(input)) + "\"\n}\n";
  const io::Manifest manifest = io::Manifest::from_json(text, "MANIFEST.json");
  fuzz::require(io::Manifest::from_json(manifest.to_json(), "again").to_json() == manifest.to_json(),
                "written and read it is the same");
}
