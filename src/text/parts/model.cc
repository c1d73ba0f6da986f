// Chooses the kind of model.
#include "text/parts/model.h"

#include <fmt/format.h>

#include "base/strings.h"
#include "text/parts/component.h"

namespace hone::text {
namespace {

// Old files have no type: the first kind whose members are all there.
std::string kind_of(const ModelConfig& config, const std::string& where) {
  const Json& json = config.json;
  if (!json.is_object()) fail_at(where, fmt::format("got {}, expected an object", json.type_name()));
  if (json.contains("type")) return type_of(json, where);
  const bool list = !config.vocab.empty() && config.vocab[0] == '[';
  if (json.contains("merges")) return "BPE";
  if (json.contains("continuing_subword_prefix") && json.contains("max_input_chars_per_word")) return "WordPiece";
  if (list) return "Unigram";
  if (json.contains("unk_token")) return "WordLevel";
  fail_at(where, "no type, and members of no known kind of model");
}

}  // namespace

std::unique_ptr<Model> make_model(const ModelConfig& config, const std::string& where, bool spelled_bytes) {
  const std::string kind = kind_of(config, where);
  if (kind == "BPE") return make_bpe(config, where, spelled_bytes);
  if (kind == "WordPiece") return make_word_piece(config, where);
  if (kind == "WordLevel") return make_word_level(config, where);
  if (kind == "Unigram") return make_unigram(config, where);
  throw Error(ErrorKind::config,
              fmt::format("{}: tokenizers of the kind {} are not known; expected BPE, WordPiece, WordLevel or Unigram",
                          where, hone::quoted(kind)));
}

}  // namespace hone::text
