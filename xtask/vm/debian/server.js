// Says whether V8's compiler has made machine code of a function; started with --allow-natives-syntax.
const http = require('node:http');

function sum(n) {
    let total = 0;
    for (let i = 0; i < n; i++) total = (total + i * i) % 1000003;
    return total;
}

// `kOptimized` of V8's OptimizationStatus.
const OPTIMIZED = 1 << 4;

http.createServer((request, response) => {
    %PrepareFunctionForOptimization(sum);
    sum(1000);
    %OptimizeFunctionOnNextCall(sum);
    sum(1000);
    response.end(%GetOptimizationStatus(sum) & OPTIMIZED ? 'compiled\n' : 'interpreted\n');
}).listen({ fd: Number(process.argv[2]) });
