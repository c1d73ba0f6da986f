// What happens to a text before it is cut: the `normalizer` of tokenizer.json.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/aligned.h"
#include "text/regex.h"

namespace hone::text {

// One step. Immutable: any thread may call it, with its own scratch.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(Aligned& text, RegexScratch& scratch) const = 0;
  // True when it is certain and cheap to see that the step would change nothing.
  virtual bool leaves(std::string_view) const { return false; }
};
using Normalizers = std::vector<std::unique_ptr<Normalizer>>;

// Sequences are laid out flat. null gives none. `where` begins every message: "tokenizer.json: normalizer".
Normalizers make_normalizers(const nlohmann::json& config, const std::string& where);

void normalize(const Normalizers& steps, Aligned& text, RegexScratch& scratch);

}  // namespace hone::text
