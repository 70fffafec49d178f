// SPDX-License-Identifier: MIT
//
// The words and signs of ttq's query language. The parser reads from a stream that shows letters in
// lower case, so keywords are written in lower case here and match in any; a token's text is taken
// from the query itself.
//
// What cannot be a token still is one (BadNumber, UnterminatedString, BadCharacter): the lexer never
// fails, and the parser's error, which knows the context, is the only one.

lexer grammar TtqLexer;

// '|' where it means C's operator: inside brackets and not before the name of a stage. Made from Pipe
// by the reader of the tokens (query/language/tokens.cc), which knows the brackets.
tokens { BitOr }

@lexer::members {
  // A '/' begins a regular expression only where a pattern can stand; elsewhere it divides.
  bool AtPattern() const {
    switch (previous_) {
      case Matches: case To: case Of: case By: case Python: case Disassemble: case In: case Bang:
        return true;
      default:
        return false;
    }
  }

  std::unique_ptr<antlr4::Token> nextToken() override {
    std::unique_ptr<antlr4::Token> token = antlr4::Lexer::nextToken();
    if (token->getChannel() == antlr4::Token::DEFAULT_CHANNEL) previous_ = token->getType();
    return token;
  }

  // Reads the tables once. The tool makes a static object do it when the program starts, which would
  // cost every command milliseconds; the build removes that object.
  static void ReadTables() { static Initializer once; }

  size_t previous_ = 0;
}

// Sources
Access : 'access';
Accesses : 'accesses';
Alive : 'alive';
All : 'all';
Backtrace : 'backtrace';
Calls : 'calls';
Changes : 'changes';
Crash : 'crash';
Created : 'created';
Creation : 'creation';
Deallocation : 'deallocation';
Disassemble : 'disassemble';
Early : 'early';
Events : 'events';
Exceptions : 'exceptions';
Executions : 'executions';
First : 'first';
Freed : 'freed';
Heap : 'heap';
Is : 'is';
Last : 'last';
Leaks : 'leaks';
Lifetime : 'lifetime';
Locals : 'locals';
Maps : 'maps';
Memory : 'memory';
Modules : 'modules';
Next : 'next';
Object : 'object';
Objects : 'objects';
Of : 'of';
Origin : 'origin';
Print : 'print';
Py : 'py';
Read : 'read';
Reads : 'reads';
Refcounts : 'refcounts';
Registers : 'registers';
Source : 'source';
Still : 'still';
Threads : 'threads';
To : 'to';
Too : 'too';
Trace : 'trace';
Type : 'type';
Waits : 'waits';
Was : 'was';
When : 'when';
Who : 'who';
Why : 'why';
Write : 'write';
Writes : 'writes';
Wrote : 'wrote';

// Clauses, times, locations
After : 'after';
At : 'at';
Before : 'before';
Between : 'between';
By : 'by';
Depth : 'depth';
End : 'end';
Frame : 'frame';
In : 'in';
Len : 'len';
Mixed : 'mixed' | '--mixed';
Python : 'python';
Start : 'start';
Thread : 'thread';
Unfolded : 'unfolded';

// Stages and conditions
And : 'and';
Asc : 'asc';
Count : 'count';
Desc : 'desc';
Distinct : 'distinct';
Matches : 'matches';
Not : 'not';
Null : 'null';
Or : 'or';
Select : 'select';
Sort : 'sort';
Where : 'where';

// C's types
Bool : 'bool' | '_bool';
Char : 'char';
Const : 'const';
Double : 'double';
Enum : 'enum';
FloatType : 'float';
Int : 'int';
Long : 'long';
Short : 'short';
Signed : 'signed';
Sizeof : 'sizeof';
Struct : 'struct';
Union : 'union';
Unsigned : 'unsigned';
Void : 'void';
Volatile : 'volatile';
StandardType : 'u'? 'int' ('8' | '16' | '32' | '64' | 'ptr') '_t' | 's'? 'size_t' | 'ptrdiff_t';

Number : ('0x' [0-9a-f]+ | [0-9]+) [ul]*;
Float : ([0-9]+ '.' [0-9]+ ('e' [+-]? [0-9]+)? | [0-9]+ 'e' [+-]? [0-9]+) 'f'?;
BadNumber : [0-9] [0-9a-z_]*;
RegisterName : '$' [a-z] [a-z0-9_]*;
Identifier : [a-z_\u0080-\u00ff] [a-z0-9_\u0080-\u00ff]*;
QuotedName : '`' ~[`\r\n]+ '`';
Text : '"' (~["\\\r\n] | '\\' ~[\r\n])* '"';
CharText : '\'' (~['\\\r\n] | '\\' ~[\r\n])* '\'';
UnterminatedString
  : '"' (~["\\\r\n] | '\\' ~[\r\n])* '\\'?
  | '\'' (~['\\\r\n] | '\\' ~[\r\n])* '\\'?
  ;
UnterminatedName : '`' ~[`\r\n]*;
Regex : '/' {AtPattern()}? (~[/\\\r\n] | '\\' ~[\r\n])+ '/';

Pipe : '|';
Semicolon : ';';
OrOr : '||';
AndAnd : '&&';
Ampersand : '&';
Caret : '^';
Equal : '==' | '=';
NotEqual : '!=';
LessEqual : '<=';
GreaterEqual : '>=';
ShiftLeft : '<<';
Less : '<';
Greater : '>';
Arrow : '->';
Plus : '+';
Minus : '-';
Star : '*';
Slash : '/';
Percent : '%';
Tilde : '~';
Bang : '!';
Question : '?';
ColonColon : '::';
Colon : ':';
Comma : ',';
DotDot : '..';
Dot : '.';
OpenParen : '(';
CloseParen : ')';
OpenBracket : '[';
CloseBracket : ']';

NewLine : '\r'? '\n' -> channel(HIDDEN);
Space : [ \t\r\f\u000b]+ -> channel(HIDDEN);
Comment : '#' ~[\n]* -> channel(HIDDEN);
BadCharacter : .;
