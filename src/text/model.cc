// Chooses the kind of model.
#include "text/model.h"

#include <fmt/format.h>

#include "base/strings.h"
#include "text/component.h"

namespace hone::text {
namespace {

// Old files have no type: what the members say.
std::string kind_of(const Json& config, const std::string& where) {
  if (!config.is_object()) fail_at(where, fmt::format("got {}, expected an object", config.type_name()));
  if (config.contains("type")) return type_of(config, where);
  if (config.contains("merges")) return "BPE";
  if (config.contains("unk_id")) return "Unigram";
  return "WordPiece";
}

}  // namespace

std::unique_ptr<Model> make_model(const Json& config, const std::string& where, bool spelled_bytes) {
  require_model_kind(config, where);
  return make_bpe(config, where, spelled_bytes);
}

void require_model_kind(const Json& config, const std::string& where) {
  const std::string kind = kind_of(config, where);
  if (kind == "BPE") return;
  throw Error(ErrorKind::config,
              fmt::format("{}: tokenizers of the kind {} are not supported; expected BPE", where, hone::quoted(kind)));
}

}  // namespace hone::text
