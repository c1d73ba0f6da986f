// llama.cpp knows three kinds of tokenizer that hone's decoders have: byte-level merges ("gpt2"), SentencePiece's
// merges by score ("llama"), and Gemma 4's.
#include "hub/gguf/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "base/env.h"
#include "base/log.h"
#include "base/strings.h"
#include "hub/gguf/pre_tokenizers.h"
#include "hub/own_tokenizer.h"
#include "io/json.h"
#include "text/formats/sentencepiece_model.h"
#include "text/tokenizer/template_files.h"

namespace hone::gguf {
namespace {

enum TokenType : std::int32_t { kNormal = 1, kControl = 3, kUser = 4, kUnused = 5, kByte = 6 };
constexpr std::string_view kMark = "\xE2\x96\x81";  // SentencePiece's blank
constexpr std::uint64_t kModelLimit = 512'000'000;

struct GgufTokens {
  std::vector<std::string> texts;
  std::vector<std::int32_t> types;
};

[[noreturn]] void refuse(const std::string& fact, const std::string& hint) {
  throw Error(ErrorKind::config, "tokenizer.json: " + fact).hint(hint);
}

// What looks like a special token is one, although some files say otherwise.
bool looks_special(std::string_view text) {
  if (text == "<pad>" || text == "<mask>" || text == "<2mass>" || text == "[@BOS@]") return true;
  if (text.starts_with("<|") && text.ends_with("|>")) return true;
  if (text.starts_with("<\xEF\xBD\x9C") && text.ends_with("\xEF\xBD\x9C>")) return true;  // fullwidth bars
  return text.starts_with("<unused") && text.ends_with(">");
}

// As a text has it: what its file spells with marks is blanks there.
std::string user_text(const std::string& content) { return replace_all(content, kMark, " "); }

GgufTokens tokens_of(const nlohmann::json& file, const Vocabulary& v) {
  GgufTokens tokens;
  for (std::int64_t id = 0; id < v.rows; ++id) tokens.texts.push_back(fmt::format("[PAD{}]", id));
  tokens.types.assign(static_cast<std::size_t>(v.rows), kUnused);
  const auto put = [&](std::int64_t id, std::string text, TokenType type) {
    if (id < 0 || id >= v.rows)
      throw Error(ErrorKind::config, fmt::format("tokenizer.json: token {} has id {}, expected one below the {} rows "
                                                 "of the model's table",
                                                 hone::quoted(text), id, v.rows));
    tokens.texts[static_cast<std::size_t>(id)] = std::move(text);
    tokens.types[static_cast<std::size_t>(id)] = type;
  };
  for (const auto& [text, id] : file.at("model").at("vocab").items()) put(id.get<std::int64_t>(), text, kNormal);
  if (const auto added = file.find("added_tokens"); added != file.end() && added->is_array())
    for (const nlohmann::json& token : *added) {
      const std::string content = token.at("content");
      const bool special = token.value("special", false) || looks_special(content);
      put(token.at("id").get<std::int64_t>(), special ? content : user_text(content), special ? kControl : kUser);
    }
  return tokens;
}

struct Pair {
  std::string left, right;
};
std::vector<Pair> merges_of(const nlohmann::json& model) {
  std::vector<Pair> merges;
  const auto found = model.find("merges");
  if (found == model.end() || !found->is_array()) return merges;
  for (const nlohmann::json& merge : *found) {
    if (merge.is_array() && merge.size() == 2) {
      merges.push_back({merge[0], merge[1]});
      continue;
    }
    const std::string text = merge.get<std::string>();
    const std::size_t blank = text.find(' ', 1);
    merges.push_back({text.substr(0, blank), blank == text.npos ? "" : text.substr(blank + 1)});
  }
  return merges;
}

void merge_keys(io::GgufKeys& keys, const std::vector<Pair>& merges) {
  std::vector<std::string> texts;
  // A blank within a part would be taken for the one between them.
  const auto spelled = [](const std::string& part) { return replace_all(part, " ", "\xC4\xA0"); };
  for (const Pair& merge : merges) texts.push_back(spelled(merge.left) + " " + spelled(merge.right));
  keys.set("tokenizer.ggml.merges", texts);
}

void list_keys(io::GgufKeys& keys, const GgufTokens& tokens) {
  keys.set("tokenizer.ggml.tokens", tokens.texts);
  keys.set("tokenizer.ggml.token_type", tokens.types);
}

void byte_level_keys(io::GgufKeys& keys, const nlohmann::json& file, const Vocabulary& v) {
  const nlohmann::json& model = file.at("model");
  const nlohmann::json pre = file.value("pre_tokenizer", nlohmann::json());
  const std::vector<Pair> merges = merges_of(model);
  const std::string name = pre_tokenizer_name(pre, !merges.empty(), model.value("ignore_merges", false));
  if (name.empty())
    refuse("llama.cpp knows no pre-tokenizer that cuts texts as this one",
           "it would read other tokens than the model has learnt; GGUF is for tokenizers whose pre-tokenizer is that "
           "of GPT-2, StarCoder, Llama 3, Qwen 2 or 3.5, Mistral's Tekken, Seed or GPT-4o");
  if (adds_blank(pre))
    log::warning("tokenizer.json: puts a blank before a text, which llama.cpp does not: its first word may be another "
                 "token");
  keys.set("tokenizer.ggml.model", std::string("gpt2"));
  keys.set("tokenizer.ggml.pre", name);
  list_keys(keys, tokens_of(file, v));
  merge_keys(keys, merges);
}

// Whether SentencePiece's rule, the piece with the best score first, does what the merges do one by one.
bool are_sentencepiece(const std::vector<Pair>& merges, const nlohmann::json& vocab) {
  std::set<std::string> pairs, done;
  std::string last;
  for (const auto& [left, right] : merges) {
    const std::string piece = left + right;
    if (piece != last && !done.insert(piece).second) return false;
    last = piece;
    pairs.insert(left + "\n" + right);
  }
  for (const std::string& piece : done)
    for (std::size_t cut = 1; cut < piece.size(); ++cut) {
      if ((static_cast<unsigned char>(piece[cut]) & 0xC0) == 0x80) continue;
      const std::string left = piece.substr(0, cut), right = piece.substr(cut);
      if (vocab.contains(left) && vocab.contains(right) && !pairs.contains(left + "\n" + right)) return false;
    }
  return true;
}

// Scores that order pieces as the merges do.
std::vector<float> scores_by_merges(const GgufTokens& tokens, const std::vector<Pair>& merges) {
  std::unordered_map<std::string, std::size_t> rank;
  for (std::size_t i = 0; i < merges.size(); ++i) rank.try_emplace(merges[i].left + merges[i].right, i);
  std::vector<float> scores;
  for (std::size_t i = 0; i < tokens.texts.size(); ++i) {
    const auto found = rank.find(tokens.texts[i]);
    const std::size_t place = found == rank.end() ? merges.size() : found->second;
    scores.push_back(tokens.types[i] == kByte ? 0 : -static_cast<float>(place));
  }
  return scores;
}

// Those of tokenizer.model, where the folder has it and its pieces are the tokens.
void take_scores(const std::filesystem::path& folder, const GgufTokens& tokens, std::vector<float>& scores) {
  const std::filesystem::path path = folder / "tokenizer.model";
  std::error_code ignored;
  if (folder.empty() || !std::filesystem::is_regular_file(path, ignored)) return;
  const std::string bytes = InFile(path, ErrorKind::config).read_all(kModelLimit);
  const text::Spm spm = text::read_spm(bytes, path.string());
  if (spm.kind != text::Spm::kBpe) return;
  for (std::size_t i = 0; i < std::min(spm.pieces.size(), scores.size()); ++i)
    if (spm.pieces[i].text == tokens.texts[i]) scores[i] = spm.pieces[i].score;
}

bool is_byte(const std::string& text) {
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with(">") &&
         std::isxdigit(static_cast<unsigned char>(text[3])) && std::isxdigit(static_cast<unsigned char>(text[4]));
}

// Whether a text gets a blank before it.
bool has_prefix(const nlohmann::json& part) {
  if (!part.is_object()) return false;
  if (part.value("type", "") == "Prepend") return true;
  if (part.value("type", "") == "Metaspace") return part.value("prepend_scheme", "always") != "never";
  for (const char* key : {"normalizers", "pretokenizers"})
    if (const auto steps = part.find(key); steps != part.end())
      for (const nlohmann::json& step : *steps)
        if (has_prefix(step)) return true;
  return false;
}

GgufTokens pieces_of(const nlohmann::json& file, const Vocabulary& v) {
  GgufTokens tokens = tokens_of(file, v);
  for (std::size_t i = 0; i < tokens.texts.size(); ++i)
    if (tokens.types[i] == kNormal && is_byte(tokens.texts[i])) tokens.types[i] = kByte;
  return tokens;
}

void sentencepiece_keys(io::GgufKeys& keys, const nlohmann::json& file, const Vocabulary& v) {
  const GgufTokens tokens = pieces_of(file, v);
  const std::vector<Pair> merges = merges_of(file.at("model"));
  std::vector<float> scores = scores_by_merges(tokens, merges);
  if (!are_sentencepiece(merges, file.at("model").at("vocab")))
    log::warning("tokenizer.json: its merges are not those of a SentencePiece model; llama.cpp may cut some words "
                 "otherwise");
  take_scores(v.folder, tokens, scores);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (tokens.types[i] == kControl || tokens.types[i] == kUser) scores[i] = -1000;
    if (tokens.types[i] == kUnused) scores[i] = -10000;
  }
  keys.set("tokenizer.ggml.model", std::string("llama"));
  keys.set("tokenizer.ggml.pre", std::string("default"));
  keys.set("tokenizer.ggml.tokens", tokens.texts);
  keys.set("tokenizer.ggml.scores", scores);
  keys.set("tokenizer.ggml.token_type", tokens.types);
  keys.set("tokenizer.ggml.add_space_prefix",
           has_prefix(file.value("normalizer", nlohmann::json())) ||
               has_prefix(file.value("pre_tokenizer", nlohmann::json())));
}

void gemma4_token_keys(io::GgufKeys& keys, const nlohmann::json& file, const Vocabulary& v) {
  static const std::set<std::string> kSeen{"<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>",
                                           "<|tool_response>", "<tool_response|>", "<|\"|>"};
  GgufTokens tokens = pieces_of(file, v);
  for (std::size_t i = 0; i < tokens.texts.size(); ++i)
    if (kSeen.contains(tokens.texts[i])) tokens.types[i] = kUser;  // llama.cpp reads answers by them
  keys.set("tokenizer.ggml.model", std::string("gemma4"));
  keys.set("tokenizer.ggml.tokens", tokens.texts);
  keys.set("tokenizer.ggml.scores", std::vector<float>(tokens.texts.size(), -1000.0f));
  keys.set("tokenizer.ggml.token_type", tokens.types);
  merge_keys(keys, merges_of(file.at("model")));
  keys.set("tokenizer.ggml.add_space_prefix", false);
}

// Ends that llama.cpp knows by their texts.
bool is_known_end(const std::string& text) {
  static const std::set<std::string> known{
      "<|eot_id|>", "<|im_end|>",    "<|end|>",          "<|return|>", "<|call|>", "<end_of_turn>", "<|endoftext|>",
      "</s>",       "<|eom_id|>",    "<EOT>",            "_<EOT>",     "[EOT]",    "[EOS]",         "<|end_of_text|>",
      "<eos>",      "<turn|>",       "<end_of_utterance>"};
  return known.contains(text);
}

void end_keys(io::GgufKeys& keys, const Vocabulary& v) {
  std::vector<std::int32_t> others;
  for (const std::int32_t end : v.ends)
    if (end != v.tokenizer.eos_id && !is_known_end(v.tokenizer.token_of(end).value_or(""))) others.push_back(end);
  constexpr const char* kKeys[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (i < std::size(kKeys))
      keys.set(kKeys[i], static_cast<std::uint32_t>(others[i]));
    else
      log::warning("generation_config.json: llama.cpp has no place for a further end, token {}", others[i]);
  }
}

void special_keys(io::GgufKeys& keys, const Vocabulary& v) {
  const auto put = [&](const char* key, std::optional<std::int32_t> id) {
    if (id && *id >= 0 && *id < v.rows)
      keys.set(fmt::format("tokenizer.ggml.{}_token_id", key), static_cast<std::uint32_t>(*id));
  };
  put("bos", v.tokenizer.bos_id), put("eos", v.tokenizer.eos_id);
  put("padding", v.tokenizer.pad_id), put("mask", v.tokenizer.mask_id);
  for (const auto& [name, content] : text::special_tokens_of(v.tokenizer)) {
    if (name == "unk_token") put("unknown", v.tokenizer.id_of(content));
    if (name == "sep_token") put("seperator", v.tokenizer.id_of(content));  // the format's spelling
  }
  if (!v.tokenizer.eos_id)
    log::warning("the tokenizer has no token that ends a text: llama.cpp will take one of its own choice");
  keys.set("tokenizer.ggml.add_bos_token", v.tokenizer.adds_bos);
  keys.set("tokenizer.ggml.add_eos_token", v.tokenizer.adds_eos);
  end_keys(keys, v);
}

void template_keys(io::GgufKeys& keys, const Tokenizer& tokenizer) {
  std::vector<std::string> names;
  for (const text::TemplateSource& source : text::template_sources(tokenizer)) {
    if (source.name == "default") {
      keys.set("tokenizer.chat_template", source.source);
      continue;
    }
    std::string name = source.name;
    for (char& c : name)
      if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    keys.set("tokenizer.chat_template." + name, source.source);
    names.push_back(name);
  }
  if (!names.empty()) keys.set("tokenizer.chat_templates", names);
}

void normalizer_keys(io::GgufKeys& keys, const nlohmann::json& normalizer) {
  if (!normalizer.is_object()) return;
  const std::string type = normalizer.value("type", "");
  if (type == "Lowercase") keys.set("tokenizer.ggml.normalizer.lowercase", true);
  if (type == "StripAccents") keys.set("tokenizer.ggml.normalizer.strip_accents", true);
  if (const auto steps = normalizer.find("normalizers"); steps != normalizer.end())
    for (const nlohmann::json& step : *steps) normalizer_keys(keys, step);
}

}  // namespace

void vocabulary_keys(io::GgufKeys& keys, const Vocabulary& v) {
  const std::string_view text = hub::tokenizer_json(v.tokenizer);
  if (text.empty()) refuse("missing", "a GGUF file holds the tokenizer that its model was trained with");
  const nlohmann::json file = io::parse_json(text, "tokenizer.json", io::kTokenizerJson);
  const nlohmann::json& model = file.at("model");
  if (!model.contains("vocab") || !model.at("vocab").is_object() || !model.contains("merges"))
    refuse(fmt::format("its model is {}, expected BPE", model.value("type", "of another kind")),
           "of decoders llama.cpp reads byte-pair encodings");
  if (v.gemma4) gemma4_token_keys(keys, file, v);
  else if (model.value("byte_fallback", false)) sentencepiece_keys(keys, file, v);
  else byte_level_keys(keys, file, v);
  special_keys(keys, v);
  template_keys(keys, v.tokenizer);
  normalizer_keys(keys, file.value("normalizer", nlohmann::json()));
}

}  // namespace hone::gguf
