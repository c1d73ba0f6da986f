// The parts of trained tokenizers: byte-level BPE as GPT-2, WordPiece as BERT, Unigram as T5.
#include "text/train/train_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "text/formats/conversion.h"
#include "text/parts/component.h"
#include "text/parts/normalizers.h"
#include "text/parts/pre_tokenizers.h"

namespace hone::text {
namespace {

// Normaliser and pre-tokenizer, for counting words.
class Cutter {
 public:
  explicit Cutter(const TokenizerParts& parts)
      : normalizers_(make_normalizers(Json::parse(parts.normalizer.dump()), "normalizer")),
        pre_tokenizers_(make_pre_tokenizers(Json::parse(parts.pre_tokenizer.dump()), "pre_tokenizer")) {}

  void cut(std::string_view text, const std::function<void(std::string_view)>& each) const {
    if (const auto bad = first_bad_utf8(text))
      throw Error(ErrorKind::data, fmt::format("text to train on: not UTF-8 at byte {} of the line {}", *bad,
                                               hone::quoted(text.substr(0, 80))));
    Work work;
    RegexScratch scratch;
    work.start(text);
    if (!normalizers_.empty())
      work.rewrite([&](const Piece& piece, Aligned& to) {
        Aligned part;
        part.limit = work.limit();
        work.copy_to(part, piece);
        normalize(normalizers_, part, scratch);
        to.append(part, 0, part.text.size());
      });
    for (const auto& step : pre_tokenizers_.steps) step->apply(work, scratch);
    if (pre_tokenizers_.spells_bytes) spell_bytes(work);
    for (const Piece& piece : work.pieces)
      if (piece.begin < piece.end) each(work.text(piece));
  }

 private:
  Normalizers normalizers_;
  PreTokenizers pre_tokenizers_;
};

OrderedJson token_piece(const char* kind, const std::string& id, int type) {
  return {{kind, {{"id", id}, {"type_id", type}}}};
}

// first A last and first A last B last, where those tokens are.
OrderedJson ends(const std::vector<std::string>& tokens, const char* first, const char* last) {
  OrderedJson single = OrderedJson::array(), pair = OrderedJson::array(), special = OrderedJson::object();
  const auto add = [&](OrderedJson& to, const char* token, int type) {
    const auto found = std::find(tokens.begin(), tokens.end(), token);
    if (found == tokens.end()) return;
    to.push_back(token_piece("SpecialToken", token, type));
    special[token] = {{"id", token}, {"ids", {found - tokens.begin()}}, {"tokens", {token}}};
  };
  for (OrderedJson* to : {&single, &pair}) {
    add(*to, first, 0);
    to->push_back(token_piece("Sequence", "A", 0));
    add(*to, last, 0);
  }
  pair.push_back(token_piece("Sequence", "B", 1));
  add(pair, last, 1);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

OrderedJson metaspace() {
  return {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}, {"split", true}};
}

TokenizerParts parts_of(const TrainerConfig& config) {
  TokenizerParts parts;
  if (config.kind == TrainedKind::bpe) {
    parts.pre_tokenizer = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
    parts.decoder = parts.pre_tokenizer;
  } else if (config.kind == TrainedKind::word_piece) {
    parts.normalizer = {{"type", "BertNormalizer"},
                        {"clean_text", true},
                        {"handle_chinese_chars", true},
                        {"strip_accents", nullptr},
                        {"lowercase", config.lowercase}};
    parts.pre_tokenizer = {{"type", "BertPreTokenizer"}};
    parts.decoder = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
    parts.post_processor = ends(config.options.special_tokens, "[CLS]", "[SEP]");
  } else {
    parts.normalizer = {{"type", "NFKC"}};
    parts.pre_tokenizer = metaspace();
    parts.decoder = metaspace();
    parts.post_processor = ends(config.options.special_tokens, "<s>", "</s>");
  }
  return parts;
}

void append_vocabulary(std::string& text, const std::vector<std::string>& tokens) {
  text += "\"vocab\":{";
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) text += ',';
    append_json_string(text, tokens[i]);
    text += fmt::format(":{}", i);
  }
  text += '}';
}

std::string bpe_model(const TrainedBpe& made) {
  std::string text = R"({"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,)"
                     R"("end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":false,)";
  append_vocabulary(text, made.tokens);
  text += ",\"merges\":[";
  for (std::size_t i = 0; i < made.merges.size(); ++i) {
    text += i > 0 ? ",[" : "[";
    append_json_string(text, made.tokens[static_cast<std::size_t>(made.merges[i].first)]);
    text += ',';
    append_json_string(text, made.tokens[static_cast<std::size_t>(made.merges[i].second)]);
    text += ']';
  }
  return text + "]}";
}

std::string word_piece_model(const TrainedBpe& made) {
  std::string text =
      R"({"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,)";
  append_vocabulary(text, made.tokens);
  return text + "}";
}

std::string unigram_model(const TrainOptions& options, const std::vector<std::pair<std::string, double>>& pieces) {
  const auto unk = std::find(options.special_tokens.begin(), options.special_tokens.end(), "<unk>");
  std::string text = fmt::format(R"({{"type":"Unigram","unk_id":{},"vocab":[)", unk - options.special_tokens.begin());
  bool first = true;
  const auto add = [&](const std::string& token, double score) {
    text += first ? "[" : ",[";
    first = false;
    append_json_string(text, token);
    text += fmt::format(",{}]", score);
  };
  for (const std::string& token : options.special_tokens) add(token, 0);
  for (const auto& [piece, score] : pieces) add(piece, score);
  return text + "],\"byte_fallback\":false}";
}

void add_special_tokens(TrainerConfig& config) {
  std::vector<std::string>& tokens = config.options.special_tokens;
  const auto require = [&](const char* token) {
    if (std::find(tokens.begin(), tokens.end(), token) == tokens.end()) tokens.insert(tokens.begin(), token);
  };
  if (tokens.empty() && config.kind == TrainedKind::bpe) tokens = {"<|endoftext|>"};
  if (tokens.empty() && config.kind == TrainedKind::word_piece) tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  if (tokens.empty() && config.kind == TrainedKind::unigram) tokens = {"<pad>", "</s>", "<unk>"};
  if (config.kind == TrainedKind::word_piece) require("[UNK]");
  if (config.kind == TrainedKind::unigram) require("<unk>");
}

OrderedJson config_of(const TrainerConfig& trainer) {
  const std::vector<std::string>& tokens = trainer.options.special_tokens;
  OrderedJson config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  if (trainer.kind == TrainedKind::word_piece)  // that class leaves the types of a pair's tokens out unless told
    config["model_input_names"] = {"input_ids", "token_type_ids", "attention_mask"};
  const std::pair<const char*, std::vector<const char*>> names[] = {
      {"bos_token", {"<s>", "<|bos|>"}},
      {"eos_token", {"</s>", "<|endoftext|>", "<|eos|>"}},
      {"unk_token", {"<unk>", "[UNK]"}},
      {"pad_token", {"<pad>", "[PAD]", "<|pad|>"}},
      {"cls_token", {"[CLS]"}},
      {"sep_token", {"[SEP]"}},
      {"mask_token", {"<mask>", "[MASK]"}},
  };
  for (const auto& [name, candidates] : names)
    for (const char* token : candidates)
      if (!config.contains(name) && std::find(tokens.begin(), tokens.end(), token) != tokens.end())
        config[name] = token;
  return config;
}

}  // namespace

Files train_tokenizer(TrainerConfig config, const std::function<bool(std::string&)>& next) {
  add_special_tokens(config);
  TokenizerParts parts = parts_of(config);
  TrainOptions& options = config.options;
  for (std::size_t i = 0; i < options.special_tokens.size(); ++i)
    parts.added.push_back({static_cast<std::int32_t>(i), options.special_tokens[i]});
  const Cutter cutter(parts);
  const WordCounts words =
      count_words(next, [&](std::string_view text, const auto& each) { cutter.cut(text, each); }, options.threads);
  if (words.empty()) throw Error(ErrorKind::data, "text to train on: no words in it");
  std::string model;
  if (config.kind == TrainedKind::bpe) {
    for (int b = 0; b < 256; ++b) append_utf8(options.alphabet.emplace_back(), byte_characters()[b]);
    model = bpe_model(train_bpe(words, options));
  } else if (config.kind == TrainedKind::word_piece) {
    model = word_piece_model(train_bpe(words, options, "##"));
  } else {
    TrainOptions rest = options;
    rest.vocab_size -= std::min(rest.vocab_size, options.special_tokens.size());
    model = unigram_model(options, train_unigram(words, rest));
  }
  return {{"tokenizer.json", tokenizer_json_text(parts, model)}, {"tokenizer_config.json", config_of(config).dump(2)}};
}

}  // namespace hone::text
