// SPDX-License-Identifier: MIT
//
// The grammar of ttq's query language; docs/query-language.md explains it. It accepts a little more
// than the language: which clauses go with which source, and what numbers may be, is checked where
// the syntax tree is built, because the messages are better there.
//
// A statement ends at the end of the tokens: the caller has cut a script into statements. Every
// decision needs few tokens of lookahead, and no sentence has two readings that differ in meaning.

parser grammar TtqParser;

options { tokenVocab = TtqLexer; }

@parser::members {
  // As the lexer's.
  static void ReadTables() { static Initializer once; }
}

statement : query EOF;

query : source clause* (Where expr)? stage*;

source
  : (All | First | Last | Next)? (Write | Writes | Read | Reads | Access | Accesses) (To | Of)
    location                                                            # accessSource
  | Who (All | First | Last | Next)? (Wrote | Read) To? location        # whoSource
  | Memory location                                                     # memorySource
  | Print expr                                                          # printSource
  | Registers                                                           # registersSource
  | Backtrace                                                           # backtraceSource
  | Source                                                              # sourceSource
  | Disassemble place                                                   # disassembleSource
  | Threads                                                             # threadsSource
  | Waits                                                               # waitsSource
  | Modules                                                             # modulesSource
  | Maps                                                                # mapsSource
  | Events eventKind?                                                   # eventsSource
  | Executions Of place                                                 # executionsSource
  | Calls To function                                                   # callsSource
  | Trace Of (OpenParen (time | query) CloseParen | function)           # traceSource
  | Crash                                                               # crashSource
  | Py Backtrace                                                        # pyBacktraceSource
  | Py Locals                                                           # pyLocalsSource
  | Py Source                                                           # pySourceSource
  | Py Print expr                                                       # pyPrintSource
  | Py Calls To (fileLine | function)                                   # pyCallsSource
  | Py Executions Of (fileLine | function)                              # pyExecutionsSource
  | Py Trace Of (OpenParen (time | query) CloseParen | fileLine | function)  # pyTraceSource
  | Py Changes Of arith                                                 # pyChangesSource
  | Py Exceptions                                                       # pyExceptionsSource
  | When Was objectAddress (Created | Freed)                            # whenSource
  | Who (Created | Freed) objectAddress                                 # whoObjectSource
  | Creation Of objectAddress                                           # creationSource
  | Deallocation Of objectAddress                                       # deallocationSource
  | Lifetime Of objectAddress                                           # lifetimeSource
  | Refcounts Of objectAddress                                          # refcountsSource
  | Object objectAddress                                                # objectSource
  | Objects Of Type typeRef                                             # objectsSource
  | Heap Leaks                                                          # heapLeaksSource
  | Heap arith                                                          # heapSource
  | Why (Is | Was) objectAddress (Still Alive | Freed Too Early)        # whySource
  | Origin Of location                                                  # originSource
  ;

clause
  : At time                     # atClause
  | Before time                 # beforeClause
  | After time                  # afterClause
  | Between time And time       # betweenClause
  | In Thread number            # threadClause
  | In? All Threads             # allThreadsClause
  | In Frame number             # frameClause
  | By Python (fileLine | function)  # byPythonClause
  | By function                 # byClause
  | In function                 # inClause
  | Mixed                       # mixedClause
  | Depth number                # depthClause
  | Unfolded                    # unfoldedClause
  ;

stage
  : Pipe Where expr                                   # whereStage
  | Pipe Select expr (Comma expr)*                    # selectStage
  | Pipe Sort By sortKey (Comma sortKey)*             # sortStage
  | Pipe First number                                 # firstStage
  | Pipe Last number                                  # lastStage
  | Pipe Count (By expr (Comma expr)*)?               # countStage
  | Pipe Distinct (expr (Comma expr)*)?               # distinctStage
  | Pipe Backtrace Mixed?                             # backtraceStage
  | Pipe Py Backtrace                                 # pyBacktraceStage
  ;

sortKey : expr (Asc | Desc)?;

location : arith (DotDot arith | Len number)?;

time : timeStart ((Plus | Minus) number)*;

timeStart
  : number
  | Start
  | End
  | Crash
  | OpenParen time CloseParen
  | OpenParen query CloseParen
  ;

// A parameter is a function here; bound to a number it is an address.
place : fileLine | function | Number;

function : (module Bang)? functionName;

module : parameter | Text | QuotedName | Regex | fileAtom (fileJoint+ fileAtom)*;

functionName
  : parameter
  | Text
  | Regex
  | (functionWord templateArguments? | angledName)
    (ColonColon Tilde? word templateArguments? | Dot (word | Number | Float | angledName))*
  ;

// Python's: <module>, <lambda>, outer.<locals>.inner.
angledName : Less word Greater;

fileLine : file Colon number;

file : parameter | Text | QuotedName | Regex? (Dot | DotDot | Slash)* fileAtom (fileJoint+ fileAtom)*;

fileAtom : word | Number | Float | BadNumber;

fileJoint : Dot | Slash | Minus | Plus;

eventKind : parameter | Identifier | QuotedName | Text | softWord;

objectAddress : arith | typeRef arith;

typeRef : parameter | Text | nameWord (Dot word)*;

// What a program binds to a value: `?`, or `:name` without a space.
parameter : Question | Colon word;

number : Number | parameter;

// Conditions and C expressions below C's shift operators. `not` binds looser than a comparison,
// `!` as in C.
expr
  : arith                                                                # plainExpr
  | expr (Less | LessEqual | Greater | GreaterEqual) expr                # compareExpr
  | expr Not? In OpenParen expr (Comma expr)* CloseParen                 # inExpr
  | expr Not? Between arith And arith                                    # betweenExpr
  | expr Not? Matches (Regex | Text | parameter)                         # matchesExpr
  | expr Is Not? Null                                                    # isNullExpr
  | expr (Equal | NotEqual) expr                                         # equalExpr
  | expr Ampersand expr                                                  # bitAndExpr
  | expr Caret expr                                                      # bitXorExpr
  | expr BitOr expr                                                      # bitOrExpr
  | Not expr                                                             # notExpr
  | expr (And | AndAnd) expr                                             # andExpr
  | expr (Or | OrOr) expr                                                # orExpr
  | <assoc = right> expr Question expr Colon expr                        # ternaryExpr
  ;

arith
  : postfix                                                              # postfixArith
  | cast                                                                 # castArith
  | (Plus | Minus | Tilde | Bang | Star | Ampersand) arith               # prefixArith
  | OpenParen strictType CloseParen arith                                # strictCastArith
  | Sizeof OpenParen strictType CloseParen                               # sizeofTypeArith
  | Sizeof postfix                                                       # sizeofArith
  | arith (Star | Slash | Percent) arith                                 # mulArith
  | arith (Plus | Minus) arith                                           # addArith
  | arith (ShiftLeft | Greater Greater) arith                            # shiftArith
  ;

// (name)x, where x cannot be read as the right side of an operator.
cast : OpenParen qualifiedName CloseParen (postfix | cast);

postfix : primary postfixOperator*;

postfixOperator
  : Dot word
  | Arrow word
  | OpenBracket expr CloseBracket
  ;

primary
  : Number                                                               # numberPrimary
  | parameter                                                            # parameterPrimary
  | Float                                                                # floatPrimary
  | CharText                                                             # charPrimary
  | Text                                                                 # textPrimary
  | RegisterName                                                         # registerPrimary
  | Null                                                                 # nullPrimary
  | qualifiedName OpenParen (expr (Comma expr)*)? CloseParen             # callPrimary
  | qualifiedName                                                        # namePrimary
  | OpenParen expr CloseParen                                            # parenPrimary
  ;

qualifiedName : nameWord (templateArguments? ColonColon Tilde? word)*;

templateArguments : Less (templateArgument (Comma templateArgument)*)? Greater;

templateArgument : anyType | Number;

// A type that cannot be an expression.
strictType
  : qualifier* basicType qualifier* pointer* (OpenBracket Number CloseBracket)?
  | qualifier+ typeNameRef qualifier* pointer* (OpenBracket Number CloseBracket)?
  | typeNameRef qualifier* pointer+ (OpenBracket Number CloseBracket)?
  ;

anyType : qualifier* (basicType | typeNameRef) qualifier* pointer*;

basicType
  : (Unsigned | Signed | Char | Short | Int | Long | FloatType | Double | Void | Bool)+
  | StandardType
  | (Struct | Union | Enum) typeNameRef
  ;

typeNameRef : nameWord templateArguments? (ColonColon word templateArguments?)*;

pointer : Star qualifier*;

qualifier : Const | Volatile;

// Words. A clause's first word is never a name; a hard word is one only where nothing else can
// stand; a soft word is a name wherever a name can stand.
nameWord : Identifier | QuotedName | softWord;

functionWord : Identifier | QuotedName | softWord | hardWord;

word : Identifier | QuotedName | softWord | hardWord | clauseWord;

softWord
  : Alive | Backtrace | Calls | Changes | Count | Crash | Creation | Deallocation | Depth
  | Disassemble | Early | End | Events | Exceptions | Executions | Frame | Heap | Leaks | Len | Lifetime | Locals
  | Maps | Memory | Modules | Object | Objects | Origin | Print | Python | Refcounts | Registers
  | Source | Start | Thread | Threads | Too | Trace | Type | Unfolded | Waits | Why
  ;

hardWord
  : Access | Accesses | All | And | Asc | Created | Desc | Distinct | First | Freed | Is | Last
  | Matches | Mixed | Next | Not | Null | Of | Or | Py | Read | Reads | Select | Sort | Still | To
  | Was | When | Who | Write | Writes | Wrote
  | Bool | Char | Const | Double | Enum | FloatType | Int | Long | Short | Signed | Sizeof | Struct
  | Union | Unsigned | Void | Volatile | StandardType
  ;

clauseWord : After | At | Before | Between | By | In | Where;
