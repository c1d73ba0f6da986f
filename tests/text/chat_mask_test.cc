// What is learnt of a conversation: transformers' assistant mask where the template marks it, the same without the
// marks.
#include "text/chat/chat_mask.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/errors.h"
#include "text/tokenizer/load.h"

namespace hone::text {
namespace {

using nlohmann::ordered_json;
using Ids = std::vector<std::int32_t>;

class Golden {
 public:
  explicit Golden(const std::string& path) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(ordered_json::parse(line));
    tokenizer = make_tokenizer(
        {{"tokenizer.json", lines[0]["tokenizer"].dump()}, {"tokenizer_config.json", lines[0]["config"].dump()}}, {},
        "golden");
    lines.erase(lines.begin());
  }
  std::vector<ordered_json> lines;
  std::shared_ptr<const Tokenizer> tokenizer;
};
const Golden& golden() {
  static const Golden golden(std::string(HONE_SOURCE_DIR) + "/tests/golden/text/chat.jsonl");
  return golden;
}

std::string mask_text(const std::vector<bool>& mask) {
  std::string text;
  for (const bool one : mask) text += one ? '1' : '0';
  return text;
}
std::string mask_text(const Tokens& tokens) {
  std::string text;
  for (const std::int32_t label : tokens.labels) text += label == -100 ? '0' : '1';
  return text;
}

ChatTemplate chat_template(const std::string& source) {
  return ChatTemplate(source, "template", special_tokens_of(*golden().tokenizer));
}
Conversation conversation(const ordered_json& messages) { return {messages.dump(), "", "", "", -1}; }

void check_blocks(const Golden& from) {
  const SpecialTokens special = special_tokens_of(*from.tokenizer);
  for (const ordered_json& line : from.lines) {
    const ChatTemplate chat(line["template"].get<std::string>(), "template", special);
    const auto rendered = chat.render(Chat::from(conversation(line["messages"]), "golden"), {});
    EXPECT_EQ(rendered.text, line["text"].get<std::string>());
    const Encoding encoding = from.tokenizer->encode(rendered.text, false);
    EXPECT_EQ(encoding.ids, line["ids"].get<Ids>());
    EXPECT_EQ(mask_text(mask_of(encoding, rendered.text, rendered.generated, "golden")), line["mask"]) << rendered.text;
  }
}

TEST(ChatMask, OfGenerationBlocksIsTransformers) {
  ASSERT_GT(golden().lines.size(), 100u);
  check_blocks(golden());
}

TEST(ChatMask, OfGenerationBlocksIsTransformersWithATokenizerOfYours) {
  const char* path = std::getenv("HONE_CHAT_MASKS");
  if (!path) GTEST_SKIP() << "HONE_CHAT_MASKS is not set; tools/golden/golden_chat.py --tokenizer makes such a file";
  const Golden yours(path);
  ASSERT_GT(yours.lines.size(), 100u);
  check_blocks(yours);
}

bool has_argument_strings(const ordered_json& messages) {
  for (const ordered_json& message : messages)
    for (const ordered_json& call : message.value("tool_calls", ordered_json::array()))
      if (call.contains("function") && call["function"].value("arguments", ordered_json()).is_string()) return true;
  return false;
}

TEST(ChatMask, IsTheSameWithoutGenerationBlocks) {
  int found = 0, refused = 0;
  for (const ordered_json& line : golden().lines) {
    if (line["plain"].is_null()) continue;
    const ChatTemplate chat = chat_template(line["plain"]);
    if (has_argument_strings(line["messages"])) continue;  // opened here, and not by transformers
    ordered_json messages = line["messages"];  // without what the template does not write, which is refused
    for (ordered_json& message : messages)
      for (const char* name : {"reasoning_content", "thinking", "reasoning", "tool_calls"})
        if (!chat.mentions(name)) message.erase(name);
    try {
      const ChatTokens made =
          chat_tokens(chat, *golden().tokenizer, conversation(messages), Learnt::assistant, "golden");
      EXPECT_EQ(made.tokens.ids, line["ids"].get<Ids>());
      EXPECT_EQ(mask_text(made.tokens), line["mask"]) << line["text"].get<std::string>();
      EXPECT_TRUE(made.ends_turns);
      ++found;
    } catch (const Error& error) {  // never another mask
      EXPECT_THAT(error.what(), ::testing::HasSubstr("cannot tell which tokens are the assistant's")) << line["text"];
      ++refused;
    }
  }
  EXPECT_GE(found, 60);
  RecordProperty("refused", refused);
  EXPECT_LE(refused, 8);
}

constexpr const char* kPlain =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
const ordered_json kTwoTurns = {{{"role", "user"}, {"content", "a"}},
                                {{"role", "assistant"}, {"content", "one"}},
                                {{"role", "user"}, {"content", "b"}},
                                {{"role", "assistant"}, {"content", "two"}}};

std::string learnt_text(const ChatTokens& made) {
  std::string text;
  for (std::size_t i = 0; i < made.tokens.ids.size(); ++i)
    if (made.tokens.labels[i] != -100) text += golden().tokenizer->decode({made.tokens.ids[i]}, false);
  return text;
}

std::string learnt_text(const std::string& source, const Conversation& chat, Learnt learnt) {
  return learnt_text(chat_tokens(chat_template(source), *golden().tokenizer, chat, learnt, "here"));
}

TEST(ChatMask, LearnsWhatIsAskedFor) {
  Conversation chat = conversation(kTwoTurns);
  EXPECT_EQ(learnt_text(kPlain, chat, Learnt::assistant), "one<|im_end|>two<|im_end|>");
  EXPECT_EQ(learnt_text(kPlain, chat, Learnt::last), "two<|im_end|>");
  EXPECT_EQ(learnt_text(kPlain, chat, Learnt::all),
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\none<|im_end|>\n<|im_start|>user\nb<|im_end|>\n"
            "<|im_start|>assistant\ntwo<|im_end|>\n");
  EXPECT_HONE_ERROR(learnt_text(kPlain, chat, Learnt::completion), data, "no prompt and completion");
  chat.prompt = 3;
  EXPECT_EQ(learnt_text(kPlain, chat, Learnt::completion), "two<|im_end|>");
  chat.prompt = 1;
  EXPECT_EQ(learnt_text(kPlain, chat, Learnt::completion), "one<|im_end|>two<|im_end|>");
}

TEST(ChatMask, CountsGenerationBlocksForTheLastTurn) {
  const std::string blocks =
      "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}"
      "{% generation %}<|im_end|>{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
  EXPECT_EQ(learnt_text(blocks, conversation(kTwoTurns), Learnt::assistant), "one<|im_end|>two<|im_end|>");
  EXPECT_EQ(learnt_text(blocks, conversation(kTwoTurns), Learnt::last), "two<|im_end|>");
}

TEST(ChatMask, LearnsChosenMessagesOnly) {
  ordered_json three = kTwoTurns;
  three.push_back({{"role", "assistant"}, {"content", "three"}});
  const Conversation chat = conversation(three);
  EXPECT_EQ(chosen_messages(chat, Learnt::assistant, "here"), (std::vector<bool>{false, true, false, true, true}));
  EXPECT_EQ(chosen_messages(chat, Learnt::last, "here"), (std::vector<bool>{false, false, false, false, true}));
  const std::string blocks =
      "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|im_end|>"
      "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
  for (const std::string& source : {std::string(kPlain), blocks})
    EXPECT_EQ(learnt_text(chat_tokens(chat_template(source), *golden().tokenizer, chat,
                                      {false, true, false, false, true}, "here")),
              "one<|im_end|>three<|im_end|>");
}

// As public templates write calls and drop thinking from history: nothing like the content stands in the turn.
constexpr const char* kTools =
    "{% if tools %}<|im_start|>system\n{% for t in tools %}{{ t|tojson }}\n{% endfor %}<|im_end|>\n{% endif %}"
    "{% set ns = namespace(last=-1) %}"
    "{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
    "{% for m in messages %}{% if m.role == 'tool' %}<|im_start|>user\n<r>{{ m.content }}</r><|im_end|>\n{% else %}"
    "<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content and loop.index0 > ns.last %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{{ m.content.split('</think>')[-1]|trim if m.role == 'assistant' and loop.index0 < ns.last else m.content }}"
    "{% for c in m.tool_calls or [] %}{% set c = c.function %}"
    "<call>{{ '{\"name\": \"' + c.name + '\", \"arguments\": ' }}{{ c.arguments|tojson }}}</call>"
    "{% endfor %}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
const ordered_json kCall = {{{"type", "function"}, {"function", {{"name", "f"}, {"arguments", {{"x", "y\"e"}}}}}}};

TEST(ChatMask, LearnsCallsAndWhatTemplatesWriteOtherwiseInHistory) {
  const ordered_json talk = {
      {{"role", "user"}, {"content", "a"}},
      {{"role", "assistant"}, {"content", ""}, {"reasoning_content", "hm"}, {"tool_calls", kCall}},
      {{"role", "tool"}, {"content", "result"}},
      {{"role", "assistant"}, {"content", "<think>so</think> one "}, {"reasoning_content", "gone"}},
      {{"role", "assistant"}, {"content", "one"}},
      {{"role", "user"}, {"content", "b"}},
      {{"role", "assistant"}, {"content", "two"}, {"reasoning_content", "why"}, {"tool_calls", kCall}}};
  const std::string call = "<call>{\"name\": \"f\", \"arguments\": {\"x\": \"y\\\"e\"}}</call><|im_end|>";
  Conversation chat = conversation(talk);
  chat.tools = R"([{"name": "f"}])";
  EXPECT_EQ(learnt_text(kTools, chat, Learnt::assistant),
            call + "one<|im_end|>one<|im_end|><think>why</think>two" + call);
  EXPECT_EQ(learnt_text(kTools, chat, Learnt::last), "<think>why</think>two" + call);
}

TEST(ChatMask, LeavesOutWhatEndsTheWholeConversation) {
  const std::string ends = std::string(kPlain) + "{% if not add_generation_prompt %}{{ eos_token }}{% endif %}";
  EXPECT_EQ(learnt_text(ends, conversation(kTwoTurns), Learnt::assistant), "one<|im_end|>two<|im_end|>");
  const std::string other =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{{ '' if loop.last else '<|im_end|>' }}\n"
      "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  EXPECT_HONE_ERROR(learnt_text(other, conversation(kTwoTurns), Learnt::assistant), data, "it ends differently");
}

TEST(ChatMask, LearnsWhatEndsATurnThoughTheLastOneEndsOtherwise) {
  const std::string turns = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}";
  const std::string last = "{% if loop.last and not add_generation_prompt %}<|endoftext|>{% else %}";
  const std::string asks = "{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  EXPECT_EQ(learnt_text(turns + last + "<|im_end|>" + asks, conversation(kTwoTurns), Learnt::assistant),
            "one<|im_end|>two<|endoftext|>");
  // What begins the next message is not what ends this one.
  EXPECT_HONE_ERROR(learnt_text(turns + last + asks, conversation(kTwoTurns), Learnt::assistant), data,
                    "it ends differently");
}

TEST(ChatMask, LearnsATurnThatComesFirst) {
  const ordered_json talk = {{{"role", "assistant"}, {"content", "hello"}},
                             {{"role", "user"}, {"content", "a"}},
                             {{"role", "assistant"}, {"content", "one"}}};
  const std::string wants_messages = "{% if messages[0].role == 'x' %}{% endif %}";  // undefined without messages
  EXPECT_EQ(learnt_text(wants_messages + kPlain, conversation(talk), Learnt::assistant),
            "hello<|im_end|>one<|im_end|>");
  const std::string strict = "{% if messages[0].role == 'assistant' %}{{ raise_exception('user first') }}{% endif %}";
  EXPECT_HONE_ERROR(learnt_text(strict + kPlain, conversation(talk), Learnt::assistant), data, "user first");
}

TEST(ChatMask, RefusesWhatTheTemplateDoesNotWrite) {
  const auto error_of = [](const std::string& source, const ordered_json& messages, const std::string& tools = "") {
    Conversation chat = conversation(messages);
    chat.tools = tools;
    try {
      learnt_text(source, chat, Learnt::all);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  using ::testing::HasSubstr;
  const auto with = [](const ordered_json& first, const ordered_json& answer) {
    return ordered_json{first, answer};
  };
  const ordered_json user = {{"role", "user"}, {"content", "a"}}, one = {{"role", "assistant"}, {"content", "one"}};
  EXPECT_EQ(error_of(kPlain, with(user, one)), "no error");
  EXPECT_THAT(error_of(kPlain, with(user, one), R"([{"name": "f"}])"),
              HasSubstr("here: tools[0]: the chat template does not write it"));
  EXPECT_THAT(error_of(kPlain, with(user, {{"role", "assistant"}, {"content", "x"}, {"tool_calls", kCall}})),
              HasSubstr("here: messages[1].tool_calls[0].function.name: the chat template does not write it"));
  EXPECT_THAT(error_of(kPlain, with(user, {{"role", "assistant"}, {"content", "x"}, {"reasoning_content", "r"}})),
              HasSubstr("here: messages[1].reasoning_content: the chat template does not write it"));
  // What stands in a text of several says nothing of each.
  const std::string tools = "{{ tools|tojson }}", two = R"([{"name": "f", "description": "1"}, {"name": "g"}])";
  const ordered_json called = with(user, {{"role", "assistant"}, {"content", "x"}, {"tool_calls", kCall}});
  EXPECT_EQ(error_of(tools + kPlain, with(user, one), two), "no error");
  EXPECT_THAT(error_of(tools + kPlain, called, two),
              HasSubstr("here: messages[1].tool_calls[0].function.name: the chat template does not write it"));
  const std::string joined = "{{ messages|map(attribute='content')|join }}";
  EXPECT_EQ(error_of(joined, with(user, one)), "no error");
  EXPECT_THAT(error_of(joined, with(user, one), two), HasSubstr("here: tools[0]: the chat template does not write it"));
  const std::string no_system =
      "{% for m in messages %}{% if m.role != 'system' %}{{ m.content }}{% endif %}{% endfor %}";
  EXPECT_THAT(error_of(no_system, with({{"role", "system"}, {"content", "S"}}, one)),
              HasSubstr("here: messages[0].content: the chat template does not write it"));
  const std::string cut = "{% for m in messages %}{{ m.content[:2] }}{% endfor %}";
  EXPECT_THAT(error_of(cut, with(user, one)), HasSubstr("here: messages[1].content: the chat template does not"));
  const std::string changed = "{% for m in messages %}{{ m.content|upper }}{% endfor %}";
  EXPECT_EQ(error_of(changed, with(user, one)), "no error");
  EXPECT_THAT(error_of(kPlain, with(user, {{"role", "assistant"}, {"content", {{{"type", "image"}}}}})),
              HasSubstr("here: messages[1].content[0]: a part of the type 'image'"));
}

TEST(ChatMask, LeavesPartsToTemplatesThatTakeThem) {
  const ordered_json talk = {{{"role", "user"}, {"content", "a"}},
                             {{"role", "assistant"}, {"content", {{{"type", "text"}, {"text", "one"}}, "two"}}}};
  const std::string parts =
      "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
      "[{{ p.text }}]{% endfor %}{% endif %}<|im_end|>{% endfor %}";
  EXPECT_EQ(learnt_text(parts, conversation(talk), Learnt::assistant), "[one][two]<|im_end|>");
  EXPECT_EQ(learnt_text(kPlain, conversation(talk), Learnt::assistant), "onetwo<|im_end|>");
}

TEST(ChatMask, SaysWhatHelpsWhereThePromptAsksForThinkingThatIsNotThere) {
  const std::string thinks = std::string(kPlain) +
                             "{% if add_generation_prompt and enable_thinking is undefined %}<think>\n{% endif %}";
  Conversation chat = conversation(kTwoTurns);
  const auto hint_of = [&](Learnt learnt) {
    try {
      return learnt_text(thinks, chat, learnt);
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  using ::testing::AllOf, ::testing::HasSubstr, ::testing::Not;
  EXPECT_THAT(hint_of(Learnt::assistant), AllOf(HasSubstr(R"("enable_thinking": false)"), HasSubstr("loss: last")));
  EXPECT_THAT(hint_of(Learnt::last), AllOf(HasSubstr("messages[3]: cannot tell"), Not(HasSubstr("loss: last"))));
  chat.variables = R"({"enable_thinking": false})";
  EXPECT_EQ(hint_of(Learnt::assistant), "one<|im_end|>two<|im_end|>");
}

TEST(ChatMask, RefusesArgumentsOfApplyChatTemplateAsVariables) {
  Conversation chat = conversation(kTwoTurns);
  chat.variables = R"({"add_generation_prompt": true})";
  EXPECT_HONE_ERROR(learnt_text(kPlain, chat, Learnt::all), data, "add_generation_prompt is none of them; got True");
  chat.variables = R"({"tools": [1]})";
  EXPECT_HONE_ERROR(learnt_text(kPlain, chat, Learnt::all), data, "tools is none of them");
  chat.variables = R"({"add_generation_prompt": false})";
  EXPECT_EQ(learnt_text(kPlain, chat, Learnt::last), "two<|im_end|>");
}

TEST(ChatMask, RefusesVariablesThatTheTemplateDoesNotHave) {
  Conversation chat = conversation(kTwoTurns);
  chat.variables = R"({"enable_thinkng": false})";
  const std::string thinks = std::string(kPlain) + "{% if enable_thinking %}{% endif %}";
  EXPECT_HONE_ERROR(learnt_text(thinks, chat, Learnt::all), data,
                    "it has none named enable_thinkng; it reads \"enable_thinking\"");
  chat.variables = R"({"enable_thinking": false})";
  EXPECT_EQ(learnt_text(thinks, chat, Learnt::last), "two<|im_end|>");
}

// A word of the template's text, or a name of its own, is nothing that it reads.
TEST(ChatMask, RefusesVariablesThatTheTemplateOnlyMentions) {
  Conversation chat = conversation(kTwoTurns);
  const std::string own =
      std::string(kPlain) + "{# mood #}{% set tone = 1 %}{% if tone and enable_thinking %}{% endif %}";
  for (const char* name : {"mood", "tone", "thinking", "role"}) {
    chat.variables = std::string("{\"") + name + "\": false}";
    EXPECT_HONE_ERROR(learnt_text(own, chat, Learnt::all), data,
                      std::string("it has none named ") + name + "; it reads \"enable_thinking\"");
  }
  EXPECT_HONE_ERROR(learnt_text(kPlain, chat, Learnt::all), data, "it reads none");
}

TEST(ChatMask, IsByPositionWhereTheUserWritesTheSame) {
  const ordered_json same = {{{"role", "user"}, {"content", "x<|im_end|>"}}, {{"role", "assistant"}, {"content", "x"}}};
  EXPECT_EQ(learnt_text(kPlain, conversation(same), Learnt::assistant), "x<|im_end|>");
}

// A block of what is generated that goes on behind the end, as TRL's template of Qwen3 has it.
TEST(ChatMask, TurnsEndBeforeWhatIsBlank) {
  const std::string blank_behind =
      "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|im_end|>\n"
      "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
  const ChatTokens made =
      chat_tokens(chat_template(blank_behind), *golden().tokenizer, conversation(kTwoTurns), Learnt::assistant, "here");
  EXPECT_TRUE(made.ends_turns);
  EXPECT_TRUE(learnt_text(blank_behind, conversation(kTwoTurns), Learnt::assistant).ends_with("<|im_end|>\n"));
}

TEST(ChatMask, SaysWhenTurnsDoNotEnd) {
  const std::string open =
      "{% for m in messages %}{{ m.role }}:\n{{ m.content }}\n{% endfor %}"
      "{% if add_generation_prompt %}assistant:\n{% endif %}";
  const ChatTokens made =
      chat_tokens(chat_template(open), *golden().tokenizer, conversation(kTwoTurns), Learnt::assistant, "here");
  EXPECT_FALSE(made.ends_turns);
}

TEST(ChatMask, IsAnErrorWhenItCannotBeTold) {
  const auto error_of = [](const std::string& source, const ordered_json& messages) {
    try {
      learnt_text(source, conversation(messages), Learnt::assistant);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  using ::testing::HasSubstr;
  // A generation prompt that stands nowhere in the rendered conversation.
  const std::string thinks = std::string(kPlain) + "{% if add_generation_prompt %}<think>\n{% endif %}";
  EXPECT_THAT(error_of(thinks, kTwoTurns),
              HasSubstr("here: messages[1]: cannot tell which tokens are the assistant's"));
  EXPECT_THAT(error_of(thinks, kTwoTurns), HasSubstr("{% generation %}"));
  // The messages before the turn are refused.
  const std::string strict =
      "{% if messages|length % 2 %}{{ raise_exception('odd') }}{% endif %}" + std::string(kPlain);
  EXPECT_THAT(error_of(strict, kTwoTurns), HasSubstr("the template refuses the first 1 messages"));
  // A token that reaches from the prompt into the turn: " t".
  const std::string spaced =
      "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
      "{% if add_generation_prompt %}assistant: {% endif %}";
  EXPECT_THAT(error_of(spaced, kTwoTurns), HasSubstr("its first token is not cut where the prompt ends"));
  // Blocks that write nothing for the assistant.
  EXPECT_THAT(
      error_of(
          "{% for m in messages %}{{ m.content }}{% endfor %}{% if x %}{% generation %}{% endgeneration %}{% endif %}",
          kTwoTurns),
      HasSubstr("wrote nothing"));
}

TEST(ChatMask, HoldsAllTokensOfALastCharacter) {
  const auto bytes = load_tokenizer("bytes");
  const std::string text = "aé";
  EXPECT_EQ(mask_text(mask_of(bytes->encode(text, false), text, {{1, 3}}, "here")), "011");
  EXPECT_EQ(mask_text(mask_of(bytes->encode(text, false), text, {{0, 1}}, "here")), "100");
  EXPECT_EQ(mask_text(mask_of(bytes->encode(text, false), text, {{1, 1}}, "here")), "000");
}

TEST(ChatTemplate, ComesFromTheTokenizersFiles) {
  const auto with = [](Files more) {
    Files files = bytes_tokenizer_files();
    files.erase(files.begin() + 1, files.end());
    files.insert(files.end(), more.begin(), more.end());
    return ChatTemplate::of(*make_tokenizer(files, {}, "folder"));
  };
  const auto text = [](const std::shared_ptr<const ChatTemplate>& chat, const std::string& tools = "") {
    return chat->render(Chat::from({R"([{"role": "user", "content": "x"}])", tools, "", "", -1}, "here"), {}).text;
  };
  EXPECT_EQ(with({}), nullptr);
  EXPECT_EQ(text(with({{"tokenizer_config.json",
                        R"({"chat_template": "{{ eos_token }}1", "eos_token": {"content": "<e>"}})"}})),
            "<e>1");
  EXPECT_EQ(text(with({{"tokenizer_config.json", R"({"chat_template": "1"})"}, {"chat_template.jinja", "2"}})), "2");
  const auto named =
      with({{"tokenizer_config.json",
             R"({"chat_template": [{"name": "default", "template": "3"}, {"name": "tool_use", "template": "4"}]})"}});
  EXPECT_EQ(text(named), "3");
  EXPECT_EQ(text(named, "[{}]"), "4");
  EXPECT_EQ(text(with({{"tokenizer_config.json", R"({"chat_template": {"default": "5", "rag": "{% bad"}})"}})), "5");
  EXPECT_HONE_ERROR(with({{"tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "3"}]})"}}),
                    config, "none is named default; found rag");
  for (const char* bad : {"5", "[1]", R"([{"name": "default"}])", R"({"default": 1})"})
    EXPECT_HONE_ERROR(with({{"tokenizer_config.json", std::string(R"({"chat_template": )") + bad + "}"}}), config,
                      "tokenizer_config.json: chat_template: got ");
  EXPECT_HONE_ERROR(with({{"chat_template.jinja", "\n{% if %}"}}), config, "chat_template.jinja:2: ");
}

TEST(ChatTemplate, PreparesMessagesAsTransformers) {
  const ChatTemplate chat("{{ messages }}|{{ tools }}|{{ documents }}|{{ add_generation_prompt }}|{{ extra }}", "t",
                          {});
  const Conversation one{R"([{"role": "user", "content": null, "reasoning": "r", "z": 1}])", "", R"([{"title": "t"}])",
                         R"({"extra": [1]})", -1};
  EXPECT_EQ(chat.render(Chat::from(one, "here"), {.generation_prompt = true}).text,
            "[{'thinking': 'r', 'role': 'user', 'reasoning': 'r', 'z': 1, 'reasoning_content': 'r'}]|None|"
            "[{'title': 't'}]|True|[1]");
  EXPECT_HONE_ERROR(Chat::from({"[]", "", "", "", -1}, "here"), data, "here: a conversation without messages");
  EXPECT_HONE_ERROR(Chat::from({"[1]", "", "", "", -1}, "here"), data,
                    "here: messages[0]: got int, expected an object");
  EXPECT_HONE_ERROR(Chat::from({R"([{"a": 18446744073709551615}])", "", "", "", -1}, "here"), data,
                    "does not fit 64 bits");
}

}  // namespace
}  // namespace hone::text
