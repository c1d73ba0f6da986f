// The built-in tokenizer "bytes": ids 0..255 are the bytes, 256 <|bos|>, 257 <|eos|>, 258 <|pad|>.
#include <nlohmann/json.hpp>

#include "text/tokenizer/load.h"
#include "text/unicode/unicode.h"

namespace hone::text {
namespace {

using OrderedJson = nlohmann::ordered_json;  // written in this order

OrderedJson byte_level() {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
}

OrderedJson added_token(int id, const char* content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

OrderedJson vocabulary() {
  OrderedJson vocab = OrderedJson::object();
  for (int b = 0; b < 256; ++b) {
    std::string spelled;
    append_utf8(spelled, byte_characters()[b]);
    vocab[spelled] = b;
  }
  return vocab;
}

}  // namespace

Files bytes_tokenizer_files() {
  const OrderedJson model = {{"type", "BPE"},
                             {"dropout", nullptr},
                             {"unk_token", nullptr},
                             {"continuing_subword_prefix", nullptr},
                             {"end_of_word_suffix", nullptr},
                             {"fuse_unk", false},
                             {"byte_fallback", false},
                             {"ignore_merges", false},
                             {"vocab", vocabulary()},
                             {"merges", OrderedJson::array()}};
  const OrderedJson tokenizer = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens",
       OrderedJson::array({added_token(256, "<|bos|>"), added_token(257, "<|eos|>"), added_token(258, "<|pad|>")})},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level()},
      {"post_processor", nullptr},
      {"decoder", byte_level()},
      {"model", model}};
  const OrderedJson config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                              {"bos_token", "<|bos|>"},
                              {"eos_token", "<|eos|>"},
                              {"pad_token", "<|pad|>"},
                              {"add_bos_token", false},
                              {"add_eos_token", false},
                              {"clean_up_tokenization_spaces", false}};
  return {{"tokenizer.json", tokenizer.dump(1)}, {"tokenizer_config.json", config.dump(2)}};
}

}  // namespace hone::text
