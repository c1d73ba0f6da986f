// Text to token ids and back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hone/error.h"

namespace hone {

// Ids of a text, with the byte range [first, second) of the input that each came from.
struct Encoding {
  std::vector<std::int32_t> ids;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> offsets;
};

// All that Hugging Face's library says about one text or a pair; one entry per id.
struct FullEncoding : Encoding {
  std::vector<std::int32_t> type_ids;        // 0 or 1: which text of a pair, or as the template says
  std::vector<std::int32_t> words;           // index of the word, -1: put there by the tokenizer
  std::vector<std::int32_t> sequences;       // 0 or 1: the text it came from (offsets count there); -1: neither
  std::vector<std::uint8_t> special_mask;    // 1: put there by the post-processor or as padding
  std::vector<std::uint8_t> attention_mask;  // 0: padding
  std::vector<FullEncoding> overflow;        // what truncation cut off, each as long as allowed
};

// One text or two as a classifier reads them.
struct FittedEncoding {
  std::vector<std::int32_t> ids, type_ids;
  std::int64_t cut = 0;  // tokens of the texts that were taken away
};

// One text, or two that belong together.
struct TextPair {
  std::string_view first;
  std::optional<std::string_view> second;
};

// A tokenizer as its `tokenizer.json` defines it. Immutable after loading: any thread may call any member.
class HONE_API Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // special: run the post-processor (for instance add <s>), as transformers' add_special_tokens does. The file's
  // truncation and padding do not apply: whoever asks for ids decides their number.
  virtual Encoding encode(std::string_view text, bool special = true) const = 0;
  // Joins the tokens' text by the file's decoder; skip_special leaves out special tokens.
  virtual std::string decode(const std::vector<std::int32_t>& ids, bool skip_special = true) const = 0;
  virtual std::int64_t vocab_size() const = 0;  // highest id + 1
  virtual std::optional<std::int32_t> id_of(std::string_view token) const = 0;
  virtual std::optional<std::string> token_of(std::int32_t id) const = 0;
  virtual bool is_special(std::int32_t id) const = 0;
  // Whether text decoded so far stays as it is when ids follow, but for an unfinished character (see StreamDecoder).
  virtual bool decodes_in_parts() const { return true; }
  // As the library's encode_batch: pairs, masks, and the file's truncation and padding (to the longest of these texts).
  // threads: 0 takes as many as the process may use.
  virtual std::vector<FullEncoding> encode_full(std::span<const TextPair> texts, bool special = true,
                                                int threads = 1) const;

  // With what the post-processor puts around and between the texts, and at most `most` tokens in all (0: as many as
  // there are), as transformers' truncation longest_first: the longer text gives first, from its end or its start.
  // Throws Error(config) where it is too few for what is put there, or where the tokenizer joins no texts.
  virtual FittedEncoding encode_fitting(const TextPair& texts, std::size_t most, bool from_left = false) const;

  // encode() for many texts. threads: 0 takes as many as the process may use.
  std::vector<Encoding> encode_batch(std::span<const std::string_view> texts, bool special = true,
                                     int threads = 0) const;

  // From tokenizer_config.json, generation_config.json or config.json beside the file, else nothing.
  std::optional<std::int32_t> bos_id, eos_id, pad_id, mask_id;
  bool adds_bos = false, adds_eos = false;  // what encode(special = true) does
  std::string fingerprint;                  // content hash: keys the token cache and goes into the manifest
  std::vector<std::pair<std::string, std::string>> files;  // name, content: copied into each checkpoint
};

// `where`: "bytes" (built in: ids 0..255 are the bytes, 256 <|bos|>, 257 <|eos|>, 258 <|pad|>), a tokenizer.json, a
// SentencePiece .model, a tiktoken file, or a folder that holds one.
HONE_API std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& where);

// A token to add to a tokenizer, with the flags of tokenizer.json.
struct NewToken {
  std::string content;
  bool special = true;
  bool single_word = false, left_strip = false, right_strip = false, normalized = false;
};
// The tokenizer with these tokens behind its own (known ones keep their ids); its files but for `added_tokens` stay as
// they are, byte for byte.
HONE_API std::shared_ptr<const Tokenizer> add_tokens(const Tokenizer& tokenizer, const std::vector<NewToken>& tokens);

// Offsets in characters (code points) instead of bytes of the text that they belong to.
HONE_API std::vector<std::pair<std::uint32_t, std::uint32_t>> in_characters(
    std::string_view text, std::span<const std::pair<std::uint32_t, std::uint32_t>> offsets);

// Streaming decode: hands out text as soon as it can no longer change (never half a UTF-8 character). All pieces
// together are decode() of all ids; special tokens are left out. One thread at a time; the tokenizer must outlive it.
class HONE_API StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  std::string push(std::int32_t id);  // the text that became final
  std::string finish();               // the rest; afterwards a new text begins

 private:
  std::string take(const std::string& text, std::size_t end);
  const Tokenizer& tokenizer_;
  std::vector<std::int32_t> ids_;  // a few whose text is out already, for context, then those that wait
  std::size_t waiting_ = 0;        // where the latter begin
  std::size_t done_ = 0;           // bytes of ids_' text that are out
};

// A conversation as JSON texts, with the keys in their order. messages: a list of objects with `role` and `content`,
// and whatever else the chat template reads (`tool_calls`, `reasoning_content`, ...).
struct Conversation {
  std::string messages;
  std::string tools, documents;  // lists of objects; "" = none
  std::string variables;         // an object: further variables of the template; "" = none
  std::int64_t prompt = -1;      // how many messages are the prompt of a completion; -1: not said
};

// One tokenised record. Masks are by position, never by id.
struct Tokens {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> labels;  // unshifted, as HF's: labels[i] is ids[i] or -100 (not supervised)
  std::int64_t record = 0;           // index into the data set's record names
};

}  // namespace hone
