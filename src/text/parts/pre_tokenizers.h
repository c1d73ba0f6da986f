// How a text is cut into words before the model sees them: the `pre_tokenizer` of tokenizer.json.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "text/parts/aligned.h"
#include "text/regex/regex.h"

namespace hone::text {

// One step. Immutable: any thread may call it, with its own scratch.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Work& work, RegexScratch& scratch) const = 0;
};

struct PreTokenizers {
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  // The last step turns bytes into the characters of byte-level vocabularies. It is left out of `steps`, because a
  // model that works on bytes does not need it; others call spell_bytes() behind the steps.
  bool spells_bytes = false;
};

// Sequences are laid out flat. null gives none. `where` begins every message: "tokenizer.json: pre_tokenizer".
PreTokenizers make_pre_tokenizers(const nlohmann::json& config, const std::string& where);

// Kinds with files of their own; nothing for a type that is none of the file's.
std::unique_ptr<PreTokenizer> make_class_pre_tokenizer(const std::string& type, const nlohmann::json& config,
                                                       const std::string& where);
std::unique_ptr<PreTokenizer> make_metaspace(const nlohmann::json& config, const std::string& where);

// Every byte becomes the character that stands for it.
void spell_bytes(Work& work);

}  // namespace hone::text
