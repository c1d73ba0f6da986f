// hone tokenize: text to token ids, or ids back to text.
#include <fmt/format.h>

#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/strings.h"
#include "cli/standard_streams.h"
#include "cli/tokenize_chat.h"
#include "data/choose_template.h"
#include "data/template_variables.h"
#include "hone/command.h"
#include "hone/registry.h"
#include "hone/text.h"

namespace hone::cli {
namespace {

class Tokenize final : public Command {
 public:
  struct Config {
    bool decode = false, lines = false, special = true, characters = false;
    bool chat = false, rendered = false;
    std::optional<Loss> loss;
    std::string chat_template, chat_template_kwargs;
    static constexpr auto fields() {
      return std::tuple{
          field("decode", &Config::decode, "The input is ids, separated by spaces or commas; print their text."),
          field("lines", &Config::lines,
                "Each line of the input is a text, or with --decode a list of ids; a line of output for each."),
          field("special", &Config::special, "Add the tokenizer's own special tokens; when decoding: keep them."),
          field("characters", &Config::characters,
                "With --json, which prints ids, tokens and offsets: offsets in characters, not bytes."),
          field("chat", &Config::chat,
                "The input is conversations: a JSON list of messages, or records as in JSON Lines data. Print their "
                "tokens and which of them are learnt: in colour on a terminal."),
          field("rendered", &Config::rendered, "With --chat: print the text that the template makes instead."),
          field("loss", &Config::loss,
                "With --chat: which tokens are learnt: all, the assistant's turns, the last of them, or the "
                "completion."),
          field("chat_template", &Config::chat_template,
                "With --chat: a template instead of the tokenizer's own: a file, a text, or a name such as chatml."),
          field("chat_template_kwargs", &Config::chat_template_kwargs,
                "With --chat: further variables of the template as a JSON object, as in {\"enable_thinking\": "
                "false}; a record's own come first.")};
    }
  };
  explicit Tokenize(const Config& config) : config_(config) {}

  Usage usage() const override {
    return {"TOKENIZER [TEXT]  (without TEXT: standard input)",
            {"hone tokenize bytes \"Hello\"", "hone tokenize my-model --json < story.txt",
             "hone tokenize my-model --lines < texts.txt", "hone tokenize my-model --decode \"1 403 407\"",
             "hone tokenize my-model --chat < conversations.jsonl"},
            1,
            2};
  }

  int run(const Invocation& call) override {
    json_ = call.json;
    check_flags();
    const auto tokenizer =
        data::with_chat_template(load_tokenizer(call.positionals[0]), config_.chat_template, "--chat-template");
    const std::string text = call.positionals.size() > 1 ? call.positionals[1] : read_standard_input();
    if (config_.chat) {
      const char* source = call.positionals.size() > 1 ? "TEXT" : "stdin";
      print_chats(*tokenizer, text, {source, config_.loss, config_.chat_template_kwargs, json_, config_.rendered});
      return 0;
    }
    for (const std::string& one : config_.lines ? lines_of(text) : std::vector{text})
      config_.decode ? print_text(*tokenizer, one) : print_ids(*tokenizer, one);
    return 0;
  }

 private:
  void check_flags() const {
    const auto fail = [](const char* what) { throw Error(ErrorKind::usage, what); };
    if (config_.loss && !config_.chat) fail("--loss: only with --chat");
    if (!config_.chat_template.empty() && !config_.chat) fail("--chat-template: only with --chat");
    if (!config_.chat_template_kwargs.empty() && !config_.chat) fail("--chat-template-kwargs: only with --chat");
    data::check_variables(config_.chat_template_kwargs, "--chat-template-kwargs");
    if (config_.rendered && !config_.chat) fail("--rendered: only with --chat");
    if (config_.chat && config_.decode) fail("--chat and --decode: only one of them");
    if (config_.chat && config_.lines) fail("--lines: not with --chat, where a line is a record anyway");
    if (config_.characters && (!json_ || config_.chat || config_.decode))
      fail("--characters: only with --json, for the offsets of a text");
    if (config_.rendered && config_.loss) fail("--rendered and --loss: only one of them");
  }

  // A line ends with LF or CR LF; what follows the last one is a line if there is anything.
  static std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines = split(text, '\n');
    if (lines.back().empty()) lines.pop_back();
    for (std::string& line : lines)
      if (line.ends_with('\r')) line.pop_back();
    return lines;
  }

  static bool looks_like_ids(const std::string& text) {
    return text.find_first_not_of("0123456789 ,[]\t\r\n") == std::string::npos &&
           trim(text).find(' ') != std::string::npos;
  }

  void print_ids(const Tokenizer& tokenizer, const std::string& text) const {
    Encoding encoding = tokenizer.encode(text, config_.special);
    if (looks_like_ids(text)) log::info("a text of numbers only; --decode takes ids and prints their text");
    if (config_.characters) encoding.offsets = in_characters(text, encoding.offsets);
    if (json_) {
      nlohmann::json tokens = nlohmann::json::array();
      for (const std::int32_t id : encoding.ids) tokens.push_back(tokenizer.token_of(id).value_or(""));
      std::cout << nlohmann::json{{"ids", encoding.ids}, {"tokens", tokens}, {"offsets", encoding.offsets}}.dump(
                       -1, ' ', false, nlohmann::json::error_handler_t::replace)
                << '\n';
      return;
    }
    for (std::size_t i = 0; i < encoding.ids.size(); ++i) std::cout << (i ? " " : "") << encoding.ids[i];
    std::cout << '\n';
  }

  void print_text(const Tokenizer& tokenizer, const std::string& text) const {
    const std::string out = tokenizer.decode(parse_ids(text, tokenizer.vocab_size()), !config_.special);
    if (json_)
      std::cout << nlohmann::json{{"text", out}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    else
      std::cout << out << '\n';
  }

  static std::vector<std::int32_t> parse_ids(const std::string& text, std::int64_t vocab_size) {
    std::vector<std::int32_t> ids;
    std::size_t at = 0;
    while ((at = text.find_first_not_of(" ,\t\r\n[]", at)) != std::string::npos) {
      const std::size_t end = std::min(text.find_first_of(" ,\t\r\n[]", at), text.size());
      const std::string word = text.substr(at, end - at);
      const auto id = parse_int(word);
      if (!id || *id < 0 || *id >= vocab_size)
        throw Error(ErrorKind::data, fmt::format("token id \"{}\": not an id; expected a number from 0 to {}",
                                                 escape_for_terminal(word), vocab_size - 1));
      ids.push_back(static_cast<std::int32_t>(*id));
      at = end;
    }
    return ids;
  }

  Config config_;
  bool json_ = false;
};

}  // namespace

void register_tokenize(Registries& hone) {
  hone.commands.add<Tokenize>("tokenize", "Turn text into token ids, or ids into text.");
}

}  // namespace hone::cli
