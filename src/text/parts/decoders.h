// From tokens back to text: the `decoder` of tokenizer.json.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace hone::text {

// One step over the list of tokens' texts. Immutable: any thread may call it.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
  // Whether text that was decoded stays when tokens follow (but for the tail that StreamDecoder holds back).
  // fused: an earlier step joined all tokens to one; a step that joins them sets it.
  virtual bool local(bool& fused) const = 0;
};

// Kinds with a file of their own.
std::unique_ptr<Decoder> make_word_piece_decoder(const nlohmann::json& config, const std::string& where);
std::unique_ptr<Decoder> make_ctc_decoder(const nlohmann::json& config, const std::string& where);

// No blanks before punctuation and shortened words. do_not: "do not" becomes "don't", as these decoders have it.
std::string clean_up(std::string text, bool do_not);

class Decoders {
 public:
  Decoders() = default;
  // Sequences are laid out flat. null: tokens are joined with blanks. `where` begins every message.
  Decoders(const nlohmann::json& config, const std::string& where);
  std::string decode(std::vector<std::string> tokens) const;
  bool local() const;

 private:
  bool present_ = false;
  std::vector<std::unique_ptr<Decoder>> steps_;
};

}  // namespace hone::text
