// hone generate: continues prompts, or answers them through the chat template.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "base/log.h"
#include "base/option_words.h"
#include "base/signals.h"
#include "base/strings.h"
#include "cli/answers_in_order.h"
#include "cli/chat_prompts.h"
#include "cli/generation_flags.h"
#include "cli/model_place.h"
#include "cli/output.h"
#include "cli/prompt_file.h"
#include "cli/record_flags.h"
#include "cli/standard_streams.h"
#include "cli/utf8.h"
#include "data/choose_template.h"
#include "data/framed_places.h"
#include "data/pictures.h"
#include "generate/rows.h"
#include "generate/take_given.h"
#include "hone/command.h"
#include "hone/generate.h"
#include "hone/hub.h"
#include "hone/registry.h"
#include "text/tokenizer/language.h"
#include "train/pictures.h"

namespace hone::cli {
namespace {

// What is asked: as it was given, and the text that the model continues, with its pictures.
struct Prompt {
  std::string given, text;
  std::vector<PictureFile> pictures = {};
  std::string where = {};  // of several, which one it is
};

// Nobody takes the answer any longer.
struct Unread {
  int reason;  // errno
};

constexpr const char* kTyped = "standard input";

void check_stop() { StopSignal::check("generating"); }

void flush() {
  if (!std::cout.flush()) throw Unread{errno};
}

void show(const std::string& text) {
  std::cout << text;
  flush();
  check_stop();
}

std::string_view name_of(FinishReason reason) {
  return reason == FinishReason::eos ? "eos" : reason == FinishReason::stop ? "stop" : "length";
}

class Generate final : public Command {
 public:
  struct Config : GenerationFlags {
    using Base = GenerationFlags;
    std::vector<std::string> prompt, image;
    std::string prompts, tokenizer, adapter, system, chat_template, chat_template_kwargs, src_lang, tgt_lang;
    bool chat = false;
    std::optional<std::int64_t> max_new_tokens, top_k, batch_size, num_beams;
    std::optional<double> temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
    std::vector<std::string> stop;
    std::optional<std::string> regex, json_schema;
    std::uint64_t seed = 0;
    bool ignore_eos = false, stream = true, stats = false;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple_cat(
          std::tuple{
              field("prompt", &C::prompt, "Text to continue; may be given several times."),
              field("image", &C::image,
                    "Picture of each --prompt, for models that read pictures: a PNG, JPEG or WebP file; may be given "
                    "several times. With --chat pictures come before the text; else the prompt has the model's token "
                    "for pictures where each belongs."),
              field("prompts", &C::prompts,
                    "File of prompts; its name says what it is: .jsonl, .json, .csv, .tsv and .parquet have the field "
                    "prompt (or text), the first two may have strings; .txt has a prompt a line, as it is. Another "
                    "name: as its beginning looks. - and pipes are read to their end first. Answers come in the order "
                    "of prompts, each once it and those before it are finished."),
              field(
                  "chat", &C::chat,
                  "Prompts are what a user says: they go through the tokenizer's chat template, and only the answer is "
                  "printed. An object or row of --prompts may also have the fields messages (an answer at their end is "
                  "left out), system, tools, documents and chat_template_kwargs. Without a prompt, on a terminal: a "
                  "conversation, line by line."),
              field("system", &C::system,
                    "With --chat: the system message, for conversations that do not begin with one of their own."),
              field(
                  "chat_template", &C::chat_template,
                  "With --chat: a template instead of the tokenizer's own: a file, a text, or a name such as chatml."),
              field("chat_template_kwargs", &C::chat_template_kwargs,
                    "With --chat: further variables of the template as a JSON object, as in {\"enable_thinking\": "
                    "false}."),
              field("tokenizer", &C::tokenizer, "Folder or tokenizer.json; default: the model's own."),
              adapter_of_run_flag<C>(),
              field(
                  "max_new_tokens", &C::max_new_tokens,
                  "Tokens to generate at most; default: what the model's generation_config.json says (max_new_tokens, "
                  "else max_length, which counts the prompt, too), or 128. That file has the defaults of sampling, "
                  "too.",
                  at_least(0)),
              field("temperature", &C::temperature,
                    "Logits are divided by it before sampling; 0 = always the likeliest token.", at_least(0)),
              field("top_k", &C::top_k,
                    "Sample among the k likeliest tokens; 0 = all; default: as generation_config.json says, 50 where "
                    "that samples and does not say (as in transformers), else all.",
                    at_least(0)),
              field("top_p", &C::top_p,
                    "Sample among the likeliest tokens that together have this probability; 1 = all.",
                    {.low = 0, .high = 1}),
              field("min_p", &C::min_p, "Leave out tokens less likely than this share of the likeliest one; 0 = none.",
                    {.low = 0, .high = 1}),
              field("repetition_penalty", &C::repetition_penalty,
                    "Above 1: tokens already in the text become less likely.", {.low = 1e-6, .high = 1e6}),
              field("presence_penalty", &C::presence_penalty,
                    "Is taken from the logits of tokens that the answer already has.", {.low = -100, .high = 100}),
              field("frequency_penalty", &C::frequency_penalty,
                    "Is taken from the logits of tokens of the answer as often as it has them.",
                    {.low = -100, .high = 100}),
              field("num_beams", &C::num_beams,
                    "Answers that are followed side by side for a prompt, of which the likeliest is given; 1 = none; "
                    "default: as generation_config.json says.",
                    {.low = 1, .high = 1024}),
              field("src_lang", &C::src_lang,
                    "Of translators of many languages: the token of the prompts' language, as en_XX or eng_Latn, in "
                    "place of the one that the tokenizer puts around a text."),
              field("tgt_lang", &C::tgt_lang,
                    "Likewise of the answers', which they begin with; default: forced_bos_token_id of "
                    "generation_config.json."),
              field("stop", &C::stop, "Text that ends the answer and is left out of it; may be given several times."),
              field("regex", &C::regex,
                    "Regular expression that an answer matches as a whole, in the syntax of Python's re; default: "
                    "none."),
              field("json_schema", &C::json_schema,
                    "JSON Schema that an answer is JSON by, as JSON or the file that has it; {} is any JSON; default: "
                    "none."),
              field("seed", &C::seed, "Seed of the sampling; the same seed gives the same text."),
              field("ignore_eos", &C::ignore_eos, "Go on after the end-of-sequence token."),
              field("batch_size", &C::batch_size, "Prompts that are continued at the same time; default 16.",
                    at_least(1)),
              field("stream", &C::stream, "Print a single answer while it is written."),
              field("stats", &C::stats,
                    "Afterwards print the tokens per second of prompts and of generation to standard error.")},
          Base::fields());
    }
  };
  explicit Generate(const Config& config) : flags_(config) {}

  Usage usage() const override {
    return {"MODEL  (without --prompt or --prompts: standard input is the prompt; with --json: an object per prompt)",
            {"hone generate my-model --prompt \"Once upon a time\" --temperature 0.8",
             "hone generate my-chat-model --chat --prompt \"Why is the sky blue?\"",
             "hone generate runs/quickstart --prompt \"12+34=\" --prompt \"7+8=\" --json"},
            1,
            1};
  }

  int run(const Invocation& call) override {
    const WordsOfFlags words;
    json_ = call.json;
    if (!flags_.chat && !(flags_.system + flags_.chat_template + flags_.chat_template_kwargs).empty())
      throw Error(ErrorKind::usage, "--system, --chat-template and --chat-template-kwargs: only with --chat");
    const ModelPlace place = model_place(call.positionals[0], flags_.adapter);
    const std::string own = tokenizer_folder(place).string();
    const auto tokenizer = data::with_chat_template(load_tokenizer(flags_.tokenizer.empty() ? own : flags_.tokenizer),
                                                    flags_.chat_template, "--chat-template");
    warn_about_tokenizer(place, flags_.tokenizer, *tokenizer);
    require_utf8(flags_.system, "--system", ErrorKind::data);
    pictures_ = training::pictures_in(place.folder);
    if (!flags_.image.empty() && !pictures_)
      throw Error(ErrorKind::usage, fmt::format("--image: {} is of texts alone; expected a model that reads pictures, "
                                                "such as a Qwen2.5-VL",
                                                place.folder.string()));
    if (flags_.chat) chat_.emplace(tokenizer, flags_.system, flags_.chat_template_kwargs, pictures_ != nullptr);
    const bool asks = !flags_.prompt.empty() || !flags_.prompts.empty() || !flags_.image.empty();
    if (flags_.chat && !asks && !json_ && isatty(0) == 1)
      return talk(place, tokenizer);
    const std::vector<Prompt> prompts = read_prompts();
    const auto model = load_model(place, flags_);
    reads_sources_ = model->seq2seq_lm() != nullptr;
    if (flags_.chat) require_causal_lm(*model, "--chat");
    if (!(flags_.src_lang + flags_.tgt_lang).empty()) require_seq2seq_lm(*model, "--src-lang and --tgt-lang");
    AllIds ids;
    const auto of_places = data::tokenizer_of_places(*tokenizer, pictures_.get());
    const Tokenizer& reads = of_places ? *of_places : *tokenizer;
    for (const Prompt& prompt : prompts) ids.push_back(encode(reads, prompt.text)), widen(prompt, reads, ids.back());
    GenerateConfig config = defaults_of(place, *model);
    if (!flags_.tgt_lang.empty() && flags_.forced_bos_token_id)
      throw Error(ErrorKind::usage, "--tgt-lang and --forced-bos-token-id: expected one of them");
    if (!flags_.tgt_lang.empty())
      config.forced_bos_token_id = text::LanguageMark(*tokenizer, flags_.tgt_lang, "--tgt-lang").id();
    Generator generator(*model, tokenizer);
    const StopSignal signals;
    const bool one = prompts.size() == 1 && flags_.stream && !json_;
    try {
      one ? stream(generator, prompts[0], ids, config) : answer_all(generator, prompts, ids, config);
    } catch (const Unread& end) {
      errno = end.reason;
      return 0;  // the program says why
    }
    if (flags_.stats) print(generator.stats());
    return 0;
  }

 private:
  using AllIds = std::vector<std::vector<std::int32_t>>;

  // One answer, while it is written.
  void stream(Generator& generator, const Prompt& prompt, const AllIds& ids, const GenerateConfig& config) const {
    bool begun = false;
    const auto show_part = [&](const std::string& text) { begun |= !text.empty(), show(text); };
    try {
      generator.generate(
          ids, config,
          [&](std::size_t, const std::string& text) {
            if (!begun && !is_alone()) show_part(prompt.given);
            show_part(text);
          },
          {}, {}, {}, placed_);
      if (!begun && !is_alone()) show(prompt.given);  // an answer of no tokens
    } catch (const Error&) {
      if (begun) std::cout << '\n';  // what is said of it does not stand behind half an answer
      throw;
    }
    std::cout << '\n';
  }

  void answer_all(Generator& generator, const std::vector<Prompt>& prompts, const AllIds& ids,
                  const GenerateConfig& config) const {
    AnswersInOrder answers([&](std::size_t i, const Generated& answer) {
      print(prompts[i], answer);
      flush();
    });
    try {
      generator.generate(ids, config, [](std::size_t, const std::string&) { check_stop(); },
                         [&](std::size_t i, const Generated& answer) { answers.add(i, answer); }, {}, {}, placed_);
    } catch (const Error&) {
      if (json_) answers.print_rest();  // each names its prompt; as text it would be taken for the one that is missing
      throw;
    }
  }

  // Pictures to their places among the tokens of a prompt, which come as often as they have tokens.
  void widen(const Prompt& prompt, const Tokenizer& tokenizer, std::vector<std::int32_t>& ids) {
    if (!pictures_) return;
    placed_.emplace_back();
    placed_.back() = data::doc_pictures(
        data::widen_places({ids}, prompt.pictures, {*pictures_, tokenizer}, prompt.where), pictures_, prompt.where);
  }

  // where: what it is, for errors. A chat's texts become JSON for its template.
  Prompt prompt_of(const std::string& given, const std::string& where,
                   const std::vector<PictureFile>& pictures = {}) const {
    if (!chat_) return {given, given, pictures};
    require_utf8(given, where, ErrorKind::data);
    return {given, chat_->text_of(chat_->of_user(given, pictures.size())), pictures};
  }

  std::vector<Prompt> read_prompts() const {
    std::vector<Prompt> all;
    std::vector<PictureFile> pictures;
    for (const std::string& file : flags_.image) pictures.push_back({.path = file});
    if (!flags_.image.empty() && !flags_.prompts.empty())
      throw Error(ErrorKind::usage, "--image: goes with --prompt; the objects of --prompts have their own pictures");
    for (const std::string& prompt : flags_.prompt) {
      all.push_back(prompt_of(prompt, "--prompt", pictures));
      all.back().where = flags_.prompt.size() == 1 ? "--prompt" : fmt::format("--prompt {}", all.size());
    }
    if (!flags_.prompts.empty())
      read_prompt_file(flags_.prompts, [&](const nlohmann::ordered_json& value, const data::Place& place) {
        all.push_back(prompt_of(value, place));
        all.back().where = place.text();
      });
    if (flags_.prompt.empty() && flags_.prompts.empty()) {
      all.push_back(prompt_of(read_standard_input(), kTyped, pictures));
      all.back().where = kTyped;
    }
    if (all.empty()) throw Error(ErrorKind::data, flags_.prompts + ": no prompts");
    if (!unread_.empty())
      log::warning("{}: fields that are not read: {}; how answers are chosen is said by flags", flags_.prompts,
                   join(std::vector<std::string>(unread_.begin(), unread_.end()), ", "));
    return all;
  }

  Prompt prompt_of(const nlohmann::ordered_json& value, const data::Place& place) const {
    if (value.is_string()) return prompt_of(value.get<std::string>(), place.text());
    if (value.is_object()) ChatPrompts::add_unread(value, pictures_ != nullptr, unread_);
    if (value.is_object() && chat_) check_cells(value, place);
    std::vector<PictureFile> pictures;
    if (chat_ && ChatPrompts::is_conversation(value, place)) {
      Prompt made = prompt_of(chat_->of_row(value, place, pictures), place);
      made.pictures = std::move(pictures);
      return made;
    }
    const std::string prompt = text_field(value, place);
    if (chat_) {
      const std::string text = prompt_of(chat_->of_prompt(prompt, value, place, pictures), place).text;
      return {prompt, text, std::move(pictures)};
    }
    ChatPrompts::refuse_fields(value, place);
    if (pictures_) pictures = ChatPrompts::pictures_of(value, place);
    return {prompt, prompt, std::move(pictures)};
  }

  // JSON is UTF-8; a table need not be.
  static void check_cells(const nlohmann::ordered_json& row, const data::Place& place) {
    for (const auto& [name, value] : row.items())
      if (value.is_string())
        require_utf8(value.get_ref<const std::string&>(), fmt::format("{}: {}", place.text(), hone::quoted(name)),
                     ErrorKind::data);
  }

  Prompt prompt_of(const Conversation& conversation, const data::Place& place) const {
    return {conversation.messages,
            during("rendering " + place.text(), [&] { return chat_->text_of(conversation); })};
  }

  std::string text_field(const nlohmann::ordered_json& value, const data::Place& place) const {
    if (!value.is_object())
      throw Error(ErrorKind::data, fmt::format("{}: got {}, expected a string, or an object with the field prompt",
                                               place.text(), data::type_of(value)));
    if (!chat_ && ChatPrompts::is_conversation(value, place))
      throw Error(ErrorKind::data, place.text() + ": messages, which are answered only with --chat");
    const std::string field = ChatPrompts::field_of(value, place);
    if (!field.empty() && value[field].is_string()) return value[field].get<std::string>();
    if (!field.empty())
      throw Error(ErrorKind::data, fmt::format("{}: field \"{}\": got {}, expected a string", place.text(), field,
                                               data::type_of(value[field])));
    throw Error(ErrorKind::data, fmt::format("{}: no field \"prompt\" or \"text\" that is a string{}", place.text(),
                                             chat_ ? ", and no \"messages\"" : ""));
  }

  // A conversation on the terminal, until the end of the input.
  int talk(const ModelPlace& place, const std::shared_ptr<const Tokenizer>& tokenizer) {
    const auto model = load_model(place, flags_);
    require_causal_lm(*model, "--chat");
    const GenerateConfig config = defaults_of(place, *model);
    Generator generator(*model, tokenizer);
    std::optional<Conversation> conversation;
    std::string answer, line;
    const auto show = [](std::size_t, const std::string& text) { std::cout << text << std::flush; };
    require_standard_input();
    while (std::cout << "> " << std::flush && std::getline(std::cin, line)) {
      if (line.empty()) continue;
      require_utf8(line, kTyped, ErrorKind::data);
      if (conversation)
        ChatPrompts::append(*conversation, answer, line);
      else
        conversation = chat_->of_user(line);
      answer = generator.generate({encode(*tokenizer, chat_->text_of(*conversation))}, config, show)[0].text;
      std::cout << '\n';
      if (flags_.stats) print(generator.stats());
    }
    std::cout << '\n';
    return 0;
  }

  std::vector<std::int32_t> encode(const Tokenizer& tokenizer, const std::string& prompt) const {
    if (reads_sources_) return generate::source_ids(tokenizer, prompt, flags_.src_lang);
    return flags_.chat ? tokenizer.encode(prompt, /*special=*/false).ids : generate::prompt_ids(tokenizer, prompt);
  }
  bool is_alone() const { return flags_.chat || reads_sources_; }  // the answer, without what it answers

  GenerateConfig defaults_of(const ModelPlace& place, const Model& model) const {
    flags_.check(model);
    return merged(generation_defaults(generation_folder(place).string(), model.vocab_size()));
  }

  GenerateConfig merged(GenerateConfig config) const {
    generate::take_given(flags_, config);
    flags_.take(config, flags_.max_new_tokens.has_value(), flags_.ignore_eos);
    if (std::find(flags_.stop.begin(), flags_.stop.end(), "") != flags_.stop.end())
      throw Error(ErrorKind::usage, "--stop: got an empty text, expected one to stop at");
    if (!flags_.stop.empty()) config.stop = flags_.stop;
    take_form(config);
    if (config.temperature == 0) refuse_sampling(config.num_beams > 1);
    if (config.temperature > 0 && config.num_beams > 1) refuse_drawn_beams(config);
    config.seed = flags_.seed;
    config.ignore_eos = flags_.ignore_eos;
    if (chat_) chat_->add_turn_end(config);
    return config;
  }

  void take_form(GenerateConfig& config) const {
    for (const auto& [flag, given] : {std::pair{"--regex", &flags_.regex}, {"--json-schema", &flags_.json_schema}})
      if (*given && (*given)->empty())
        throw Error(ErrorKind::usage, fmt::format("{}: got an empty text, expected a form of answers", flag));
    if (flags_.regex && flags_.json_schema)
      throw Error(ErrorKind::usage, "--json-schema: beside --regex; an answer is held to one form");
    config.regex = flags_.regex.value_or("");
    const std::string schema = flags_.json_schema.value_or("");
    const std::string_view text = trim(schema);
    const bool is_json = text.empty() || text[0] == '{' || text == "true";
    constexpr std::uint64_t kMostBytes = 16'000'000;
    config.json_schema = is_json ? schema : InFile(schema, ErrorKind::data).read_all(kMostBytes);
  }

  // What was not given stands in generation_config.json.
  [[noreturn]] void refuse_drawn_beams(const GenerateConfig& config) const {
    const bool of_file = !flags_.temperature && !flags_.num_beams;
    throw Error(of_file ? ErrorKind::config : ErrorKind::usage,
                fmt::format("{}: got {}, but beams ({}{}) are the likeliest answers, and nothing is drawn",
                            flags_.temperature ? "--temperature" : "generation_config.json: do_sample with temperature",
                            config.temperature, config.num_beams,
                            flags_.num_beams ? "" : ", generation_config.json's num_beams"))
        .hint("--num-beams 1 takes none; --temperature 0 draws nothing");
  }

  void refuse_sampling(bool beams) const {
    for (const auto& [flag, given] : {std::pair{"--top-k", flags_.top_k.value_or(0) > 0},
                                      {"--top-p", flags_.top_p.value_or(1) < 1},
                                      {"--min-p", flags_.min_p.value_or(0) > 0}})
      if (given)
        throw Error(ErrorKind::usage, fmt::format("{}: nothing is drawn: {}", flag,
                                                  beams ? "beams are the likeliest answers" : "the temperature is 0"))
            .hint(beams ? "leave it out, or draw tokens by --num-beams 1 --temperature 1"
                        : "--temperature 1 draws each token by its probability");
  }

  void print(const Prompt& prompt, const Generated& answer) const {
    if (json_)
      write_json({{"prompt", prompt.given},
                  {"text", answer.text},
                  {"ids", answer.ids},
                  {"finish_reason", name_of(answer.reason)}});
    else
      std::cout << (is_alone() ? "" : prompt.given) << answer.text << '\n';
  }

  void print(const GenerateStats& s) const {
    std::cout << std::flush;
    if (json_) {
      std::cerr << one_line({{"stats",
                              {{"prompt_tokens", s.prompt_tokens},
                               {"prompt_seconds", s.prompt_seconds},
                               {"generated_tokens", s.decoded_tokens},
                               {"generation_seconds", s.decode_seconds}}}})
                << '\n';
      return;
    }
    const auto line = [](const char* name, std::int64_t tokens, double seconds) {
      std::cerr << fmt::format("{}: {} tokens in {:.4f} s, {:.1f} tokens/s\n", name, tokens, seconds,
                               tokens > 0 ? static_cast<double>(tokens) / seconds : 0.0);
    };
    line("prompts", s.prompt_tokens, s.prompt_seconds);
    line("generation", s.decoded_tokens, s.decode_seconds);
  }

  Config flags_;
  bool json_ = false, reads_sources_ = false;
  std::optional<ChatPrompts> chat_;  // with --chat
  std::shared_ptr<const PictureReader> pictures_;  // null: the model reads none
  std::vector<std::vector<DocPicture>> placed_;    // of each prompt, where it reads some
  mutable std::set<std::string> unread_;  // names of fields beside prompts
};

}  // namespace

void register_generate(Registries& hone) { hone.commands.add<Generate>("generate", "Continue prompts with a model."); }

}  // namespace hone::cli
